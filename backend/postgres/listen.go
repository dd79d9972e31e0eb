package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// errNoListen is what Listen says without Options.Listen: the worker polls.
var errNoListen = errors.New("postgres: listen: Options.Listen is nil")

// Listen implements [queue.Waiter]: it listens on the channel that bears the
// schema's name, whose notifications bear the names of queues. It holds one
// connection of the *sql.DB meanwhile, or one of its own if that is how
// Options.Listen works.
func (b *Backend) Listen(ctx context.Context, worker string, queues []string, wake func()) error {
	if b.options.Listen == nil {
		return errNoListen
	}
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	pause := shortest
	defer b.sleepers.forget(worker)
	for ctx.Err() == nil {
		ready := func() {
			pause = shortest
			b.sleepers.forget(worker) // as a server has that crashed
			wake()                    // what was notified before went unheard
		}
		err := b.options.Listen(ctx, b.db, b.options.Schema, ready, b.notified(ctx, worker, queues, wake))
		if errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("postgres: listen: %w", err)
		}
		// Else the connection broke, or there was none: that the database is away
		// is the worker's claims' to tell.
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, longest)
			b.weed(ctx) // the next is to be none that broke with the last
		}
	}
	return nil
}

// wakeTimeout bounds a statement that the network has swallowed.
const wakeTimeout = 5 * time.Second

// notified wakes the worker and takes it off the list of those asleep, so that
// enqueueing need not notify while it is awake.
func (b *Backend) notified(ctx context.Context, worker string, queues []string, wake func()) func(string) {
	names := textArray(queues)
	return func(payload string) {
		if !slices.Contains(queues, payload) {
			return
		}
		nap, off := b.sleepers.woken(worker, time.Now()) // it may fall asleep again before the statement is through
		wake()
		if !off {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, wakeTimeout) // notifications wait for it
		defer cancel()
		// If this fails the worker stays on the list, and is woken once more than needed.
		_, err := b.db.ExecContext(ctx, b.sql.wake, names, worker, nap)
		b.noteSilence(err)
	}
}

// Sleep implements [queue.Waiter] with sql/sleep.sql.
func (b *Backend) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	now := time.Now()
	if next, ok := b.sleepers.goesOn(worker, now); ok {
		return next, nil
	}
	nap := b.sleepers.begin(worker, now)
	next, took, err := b.register(ctx, worker, queues, nap)
	if err != nil {
		b.sleepers.forget(worker)
		return -1, err
	}
	var due time.Time
	if next >= 0 {
		due = time.Now().Add(next)
	}
	b.sleepers.found(worker, nap, due, took)
	return next, nil
}

// register puts the worker on the list, if it would hear of what is notified. It returns after how long the next scheduled job is due, below 0 if there
// is none, and how long the server took.
func (b *Backend) register(ctx context.Context, worker string, queues []string, nap int64) (next, took time.Duration, err error) {
	var due sql.NullInt64
	var micros int64
	err = b.on(ctx, "sleep", nil, func(db queue.DB) error {
		return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&due, &micros) },
			b.sql.sleep, textArray(queues), worker, nap, b.options.Listen != nil)
	})
	if err != nil || !due.Valid {
		return -1, duration(micros), err
	}
	return duration(due.Int64), duration(micros), nil
}
