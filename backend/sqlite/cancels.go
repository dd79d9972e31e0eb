package sqlite

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// Cancelled jobs of other processes.
//
// Problem: SQLite notifies nobody, and a worker should learn within moments which of its jobs to
// cancel.
// Rule: a Cancel on the backend's own handle tells the workers of its process after its commit. All
// other commits are noticed by a count that each Cancel of a running job raises (cancels.sql): one
// row, which a process with workers reads every pollEvery.
// Shown by: the suite's case "a hint to cancel", TestCancelElsewhere.

// canceller is a worker that listens for cancelled jobs. The file's mutex guards it.
type canceller struct {
	prefix, worker string
	ids            []int64       // named since it was last called
	signal         chan struct{} // holds one signal: there are ids
}

// ListenCancels implements [driver.Canceller]. It holds no connection.
func (b *Backend) ListenCancels(ctx context.Context, worker string, hint func(ids ...int64)) error {
	c := &canceller{prefix: b.options.Prefix, worker: worker, signal: make(chan struct{}, 1)}
	b.file.addCanceller(c)
	defer b.file.removeCanceller(c)
	seen := int64(-1)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.signal:
			hint(b.file.takeHints(c)...)
		case <-tick.C:
			now, err := b.countCancels(ctx)
			if err == nil && seen >= 0 && now != seen {
				hint()
			}
			if err == nil { // otherwise the next look finds the same
				seen = now
			}
		}
	}
}

// countCancels returns how many requests to cancel running jobs there have been.
func (b *Backend) countCancels(ctx context.Context) (n int64, err error) {
	ids := []int64{0}
	err = b.read(ctx, "listen", func(db queue.DB) (err error) {
		ids, err = queryIDs(ctx, db, b.sql["cancels"])
		return err
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return ids[0], nil
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
