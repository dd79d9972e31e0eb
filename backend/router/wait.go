package router

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

const (
	// wakeInterval is how often a worker is told to look for jobs of backends that cannot tell it.
	wakeInterval = time.Second
	// pauseTicks is how many times as long it may take to learn of a pause.
	pauseTicks = 5
)

// Listen implements [driver.Waiter]. It listens to the backends of the queues, and to the home for
// paused kinds. For a backend that cannot tell anything it signals jobs each second, and pauses
// each five. It returns an error if none of the backends can.
func (q *Queue) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	runs := q.queuesOf(queues)
	if !slices.ContainsFunc(runs, func(r run) bool { return r.target == q.home }) {
		runs = append(runs, run{target: q.home})
	}
	var listens []ear
	for _, r := range runs {
		waiter, ok := driver.As[driver.Waiter](r.Queue)
		listens = append(listens, ear{driver.Signal{Jobs: len(r.queues) > 0, Pauses: r.target == q.home}, func(ctx context.Context) error {
			if !ok {
				return errNotTold
			}
			return waiter.Listen(ctx, worker, r.queues, func(s driver.Signal) { tell(r.outwardSignal(s, q.home)) })
		}})
	}
	return listenAll(ctx, listens, tell)
}

// ear is a Listen of one backend, and what a worker has to look at if the backend cannot tell.
type ear struct {
	instead driver.Signal
	listen  func(context.Context) error
}

// outwardSignal returns the signal as the router gives it: with its IDs, and with pauses of the
// home only.
func (t *target) outwardSignal(s driver.Signal, home *target) driver.Signal {
	s.Pauses = s.Pauses && t == home
	ids := make([]int64, len(s.IDs))
	for i, id := range s.IDs {
		ids[i] = t.outward(id)
	}
	s.IDs = ids
	return s
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

// listenAll calls all functions at once until ctx ends. For those that have returned an error it
// gives their signals instead, each wakeInterval, but pauses less often. It returns an error
// if all of them have.
func listenAll(ctx context.Context, ears []ear, tell func(driver.Signal)) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	type deafness struct {
		err     error
		instead driver.Signal
	}
	deaf := make(chan deafness, len(ears))
	for _, e := range ears {
		all.Go(func() {
			if err := e.listen(ctx); err != nil {
				deaf <- deafness{err, e.instead}
			}
		})
	}
	ticker := time.NewTicker(wakeInterval)
	defer ticker.Stop()
	var errs []error
	var instead driver.Signal
	for ticks := 1; ; {
		select {
		case <-ctx.Done():
			return nil
		case d := <-deaf:
			if errs = append(errs, d.err); len(errs) == len(ears) && ctx.Err() == nil {
				return errors.Join(errs...)
			}
			instead.Jobs, instead.Pauses = instead.Jobs || d.instead.Jobs, instead.Pauses || d.instead.Pauses
		case <-ticker.C:
			s := driver.Signal{Jobs: instead.Jobs, Pauses: instead.Pauses && ticks%pauseTicks == 0}
			if ticks++; s.Jobs || s.Pauses {
				tell(s)
			}
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
