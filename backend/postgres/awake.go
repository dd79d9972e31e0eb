package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// awake are the workers that a listener has woken, and whose registrations are still to be removed.
// The next notification does not wait for that: one statement removes what has come together
// meanwhile.
type awake struct {
	mu      sync.Mutex
	queues  []string
	upTo    map[string]int64 // of each worker, the number up to which its registrations go
	isBusy  bool             // a goroutine removes registrations
	running sync.WaitGroup
}

// deregisterSoon removes the workers' registrations up to the numbered one, beside its caller. When
// ctx has ended, they stay.
func (b *Backend) deregisterSoon(ctx context.Context, a *awake, queues, workers []string, upTo int64) {
	if len(workers) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.upTo == nil {
		a.upTo = make(map[string]int64)
	}
	a.queues = append(a.queues, queues...)
	for _, worker := range workers {
		a.upTo[worker] = upTo
	}
	if a.isBusy {
		return
	}
	a.isBusy = true
	a.running.Go(func() {
		for {
			queues, upTo := a.take()
			if len(upTo) == 0 {
				return
			}
			b.deregister(ctx, queues, upTo)
		}
	})
}

// take returns what is to be removed. If that is nothing, the caller is no longer busy.
func (a *awake) take() (queues []string, upTo map[string]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.queues)
	queues, upTo = slices.Compact(a.queues), a.upTo
	a.queues, a.upTo = nil, nil
	a.isBusy = len(upTo) > 0
	return queues, upTo
}

// deregisterTimeout bounds a statement that the network has swallowed.
const deregisterTimeout = 5 * time.Second

// deregister removes registrations in the queues, of each worker up to the numbered one, with
// sql/deregister.sql. If that fails they stay, and jobs of the next minute notify more often than
// needed. It returns when ctx ends or the time is up, though lib/pq goes on reading then.
func (b *Backend) deregister(ctx context.Context, queues []string, upTo map[string]int64) {
	var workers array
	ends := numbers(len(upTo))
	for worker, number := range upTo {
		workers.string(worker)
		ends.int(number)
	}
	ctx, cancel := context.WithTimeout(ctx, deregisterTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		err := b.onOneConn(ctx, b.db, func(db queue.DB) error {
			_, err := db.ExecContext(ctx, b.sql["deregister"], textArray(queues), workers.String(), ends.String())
			return err
		})
		b.health.note(err)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
