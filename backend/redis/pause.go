package redis

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// PauseKinds implements [driver.Pauser]. db must be nil.
func (b *Backend) PauseKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return b.setPaused(ctx, db, kinds, func(key string) rueidis.Completed {
		return b.client.B().Sadd().Key(key).Member(kinds...).Build()
	})
}

// ResumeKinds implements [driver.Pauser]. db must be nil.
func (b *Backend) ResumeKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return b.setPaused(ctx, db, kinds, func(key string) rueidis.Completed {
		return b.client.B().Srem().Key(key).Member(kinds...).Build()
	})
}

// setPaused changes the set of paused kinds, and tells those who listen.
func (b *Backend) setPaused(ctx context.Context, db queue.DB, kinds []string, change func(key string) rueidis.Completed) error {
	if err := driver.CheckKinds(kinds); err != nil {
		return failed("pause", err)
	}
	if err := refuse(db); err != nil {
		return failed("pause", err)
	}
	if len(kinds) == 0 {
		return nil
	}
	if b.opts.ReadOnly {
		return failed("pause", errReadOnly)
	}
	if err := b.ask(ctx, b.client, func() rueidis.Completed { return change(b.pausedKey()) }).Error(); err != nil {
		return failed("pause", err)
	}
	b.client.Do(ctx, b.client.B().Publish().Channel(b.pauses()).Message("").Build()) // else they read it within seconds
	return nil
}

func (b *Backend) pausedKey() string { return "{" + b.opts.Namespace + "}:paused" }

// pauses returns the channel on which workers hear that the paused kinds have changed.
func (b *Backend) pauses() string { return b.opts.Namespace + ":pauses" }

// PausedKinds implements [driver.Pauser].
func (b *Backend) PausedKinds(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("paused kinds", err)
	}
	kinds, err := b.client.Do(ctx, b.client.B().Smembers().Key(b.pausedKey()).Build()).AsStrSlice()
	if err != nil {
		return nil, failed("paused kinds", err)
	}
	slices.Sort(kinds)
	return kinds, nil
}

// ListenPauses implements [driver.Pauser].
func (b *Backend) ListenPauses(ctx context.Context, changed func()) error {
	return b.subscribe(ctx, subscription{
		command:   func() rueidis.Completed { return b.client.B().Subscribe().Channel(b.pauses()).Build() },
		receive:   func(string) { changed() },
		confirmed: changed,
	})
}
