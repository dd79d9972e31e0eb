package router

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

// wakeInterval is how often a worker is woken for backends that cannot wake it.
const wakeInterval = time.Second

// Listen implements [driver.Waiter]. For a backend that cannot wake workers it calls wake each
// second. It returns an error if none of the queues' backends can.
func (q *Queue) Listen(ctx context.Context, worker string, queues []string, wake func()) error {
	var listens []func(context.Context) error
	for _, p := range q.queuesOf(queues) {
		waiter, ok := driver.As[driver.Waiter](p.Queue)
		listens = append(listens, func(ctx context.Context) error {
			if !ok {
				return errNotTold
			}
			return waiter.Listen(ctx, worker, p.queues, wake)
		})
	}
	return listenAll(ctx, listens, wake)
}

// CheckListen implements [driver.Waiter]: it returns the errors of all backends.
func (q *Queue) CheckListen(worker string) error {
	var errs []error
	for _, t := range having[driver.Waiter](q) {
		errs = append(errs, t.can.CheckListen(worker))
	}
	return errors.Join(errs...)
}

// errNotTold says that a backend tells nobody of its changes.
var errNotTold = errors.New("router: a backend tells nobody of its changes")

// queuesOf returns the backends of the queues, each with those that are its own, in the order of
// the first of them.
func (q *Queue) queuesOf(queues []string) (all []run) {
	for _, name := range queues {
		t := q.route(name)
		i := slices.IndexFunc(all, func(r run) bool { return r.target == t })
		if i < 0 {
			all, i = append(all, run{target: t}), len(all)
		}
		all[i].queues = append(all[i].queues, name)
	}
	return all
}

// listenAll calls all functions at once until ctx ends. While one of them has returned an error, it
// calls instead each wakeInterval, unless that is nil. It returns an error if all of them have.
func listenAll(ctx context.Context, listens []func(context.Context) error, instead func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	deaf := make(chan error, len(listens))
	for _, listen := range listens {
		all.Go(func() {
			if err := listen(ctx); err != nil {
				deaf <- err
			}
		})
	}
	var ticks <-chan time.Time
	var errs []error
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-deaf:
			if errs = append(errs, err); len(errs) == len(listens) && ctx.Err() == nil {
				return errors.Join(errs...)
			}
			if ticks == nil && instead != nil {
				ticker := time.NewTicker(wakeInterval)
				defer ticker.Stop()
				ticks = ticker.C
			}
		case <-ticks:
			instead()
		}
	}
}

// Sleep implements [driver.Waiter]. It asks the backends of the queues at once. For one that fails
// it asks to be called again after a second.
func (q *Queue) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	next = -1
	var mu sync.Mutex
	var errs []error
	asked := q.queuesOf(queues)
	atOnce(asked, func(r run) {
		waiter, ok := driver.As[driver.Waiter](r.Queue)
		if !ok {
			return
		}
		asking, cancel := patience(ctx, &r.health, len(asked)-1)
		defer cancel()
		own, err := waiter.Sleep(asking, worker, r.queues)
		r.health.note(ctx, err)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs, own = append(errs, err), wakeInterval
		}
		if own >= 0 && (next < 0 || own < next) {
			next = own
		}
	})
	if len(errs) == len(asked) {
		return 0, errors.Join(errs...)
	}
	return next, nil
}

// ListenCancels implements [driver.Canceller].
func (q *Queue) ListenCancels(ctx context.Context, worker string, hint func(ids ...int64)) error {
	var listens []func(context.Context) error
	for _, t := range q.targets {
		canceller, ok := driver.As[driver.Canceller](t.Queue)
		listens = append(listens, func(ctx context.Context) error {
			if !ok {
				return errNotTold
			}
			return canceller.ListenCancels(ctx, worker, func(ids ...int64) {
				outward := make([]int64, len(ids))
				for i, id := range ids {
					outward[i] = t.outward(id)
				}
				hint(outward...)
			})
		})
	}
	return listenAll(ctx, listens, nil)
}
