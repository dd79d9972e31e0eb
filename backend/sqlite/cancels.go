package sqlite

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Cancelled jobs and paused kinds of other processes.
//
// Problem: SQLite notifies nobody, and a worker should learn within moments which of its jobs to
// cancel, and which kinds are paused.
// Rule: a Cancel on the backend's own handle tells the workers of its process after its commit. All
// other commits are noticed by two counts (changes.sql): each Cancel of a running job raises one,
// and each change of rules or pauses the other. They are one row, which a process with workers
// reads every pollEvery.
// Shown by: the suite's cases "a hint to cancel" and "a worker is told", TestCancelElsewhere.

// canceller is a worker that listens for cancelled jobs. The file's mutex guards it.
type canceller struct {
	prefix, worker string
	ids            []int64       // named since it was last called
	signal         chan struct{} // holds one signal: there are ids
}

// changes are counts that tell what has changed. Their zero value is unknown.
type changes struct{ cancels, rules int64 }

// since returns what has changed since the counts before. If they are unknown, all may have.
func (c changes) since(before changes) driver.Signal {
	return driver.Signal{Cancels: c.cancels != before.cancels, Pauses: c.rules != before.rules}
}

// readChanges returns the counts, which begin with 1.
func (b *Backend) readChanges(ctx context.Context) (c changes, err error) {
	err = b.read(ctx, "listen", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			err := rows.Scan(&c.cancels, &c.rules)
			c.cancels, c.rules = c.cancels+1, c.rules+1
			return err
		}, b.sql["changes"])
	})
	return c, err
}

func (f *file) addCanceller(c *canceller) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancellers[c] = struct{}{}
}

func (f *file) removeCanceller(c *canceller) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.cancellers, c)
}

// takeHints returns the ids that c has to be told of.
func (f *file) takeHints(c *canceller) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := c.ids
	c.ids = nil
	return ids
}

// hint tells the workers of this process which of their jobs to cancel.
func (f *file) hint(prefix string, asked map[string][]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.cancellers {
		if ids := asked[c.worker]; c.prefix == prefix && len(ids) > 0 {
			c.ids = append(c.ids, ids...)
			signal(c.signal)
		}
	}
}
