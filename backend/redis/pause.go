package redis

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Pause implements [driver.Pauser]. db must be nil.
func (b *Backend) Pause(ctx context.Context, db queue.DB, target queue.Target, paused bool) (changed bool, err error) {
	if err := driver.CheckTarget(target); err != nil {
		return false, failed("pause", err)
	}
	if err := refuse(db); err != nil {
		return false, failed("pause", err)
	}
	switch {
	case target.Schedule != "":
		names, pause := schedules.Pause(paused, target.Schedule)
		n, err := b.changeSchedules(ctx, "pause", db, names, pause)
		return n > 0, err
	case target.Kind != "":
		return b.pauseKind(ctx, target.Kind, paused)
	}
	action := "resume"
	if paused {
		action = "pause"
	}
	n, err := b.changeRules(ctx, "pause", ruleChange{cmp.Or(target.Queue, target.InQueue), target.Group, action, ""})
	return n > 0, err
}

// pauseKind changes the set of paused kinds, and tells the workers that listen.
func (b *Backend) pauseKind(ctx context.Context, kind string, paused bool) (changed bool, err error) {
	if b.opts.ReadOnly {
		return false, failed("pause", errReadOnly)
	}
	n, err := b.ask(ctx, b.client, func() rueidis.Completed {
		if paused {
			return b.client.B().Sadd().Key(b.pausedKey()).Member(kind).Build()
		}
		return b.client.B().Srem().Key(b.pausedKey()).Member(kind).Build()
	}).AsInt64()
	if err != nil {
		return false, failed("pause", err)
	}
	b.client.Do(ctx, b.client.B().Publish().Channel(b.pauses()).Message("").Build()) // else they read it within seconds
	return n > 0, nil
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
