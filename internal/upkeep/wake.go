package upkeep

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

const (
	// DefaultPoll is how often to claim while nothing says that there are jobs, and the backend
	// cannot wake the worker.
	DefaultPoll = time.Second
	// wokenPoll is how often to claim if the backend wakes the worker. The poll then finds only jobs
	// for which nothing was notified. An idle worker makes 0.8 transactions a second with pgx, which
	// pings an idle connection before it uses it, and 1.2 with lib/pq, beside its reports.
	wokenPoll = 5 * time.Second
	// LongestSleep is the longest time between two announcements while the worker sleeps. It is half
	// of the minute for which an announcement is valid.
	LongestSleep = 30 * time.Second
	// checkInterval is how often Listen asks whether the backend hears of jobs.
	checkInterval = time.Second
)

// Waker lets a backend wake a worker, and tell it of other changes. All clients of a gateway that
// wait for the jobs of the same queues are one worker to the backend. It is safe for concurrent
// use.
type Waker struct {
	Waiter driver.Waiter // nil: the backend cannot wake

	worker     string
	queues     []string
	poll       time.Duration // 0 for the default
	canWake    atomic.Bool   // the backend wakes the worker at the moment, and tells it of changes
	hasGivenUp atomic.Bool   // Listen has ended
}

// NewWaker returns a Waker of that worker, which claims from the queues. While the backend does not
// wake it, it claims each poll; 0 means a default.
func NewWaker(backend any, worker string, queues []string, poll time.Duration) *Waker {
	w := &Waker{worker: worker, queues: queues, poll: poll}
	w.Waiter, _ = driver.As[driver.Waiter](backend)
	w.canWake.Store(w.Waiter != nil)
	return w
}

// CanWake reports whether the backend wakes the worker at the moment.
func (w *Waker) CanWake() bool { return w.canWake.Load() }

// HasGivenUp reports whether the backend will not wake the worker any more.
func (w *Waker) HasGivenUp() bool { return w.Waiter == nil || w.hasGivenUp.Load() }

// Poll returns how often to claim while nothing says that there are jobs.
func (w *Waker) Poll() time.Duration {
	switch {
	case w.poll > 0:
		return min(w.poll, LongestSleep)
	case w.CanWake():
		return wokenPoll
	}
	return DefaultPoll
}

// Announcement is what follows from an announcement of sleep.
type Announcement struct {
	Valid time.Time // until then the backend wakes the worker
	Due   time.Time // when the next scheduled job is due; zero if none is
}

// End returns until when there is nothing to do unless the backend wakes the worker.
func (a Announcement) End() time.Time {
	if !a.Due.IsZero() && a.Due.Before(a.Valid) {
		return a.Due
	}
	return a.Valid
}

// Announce tells the backend that the worker is about to sleep.
func (w *Waker) Announce(ctx context.Context) (a Announcement, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a.Valid = time.Now().Add(LongestSleep)
	next, err := w.Waiter.Sleep(ctx, w.worker, w.queues)
	if err == nil && next >= 0 {
		a.Due = time.Now().Add(next)
	}
	return a, err
}

// Listen lets the backend call tell, if it can, until ctx ends. Meanwhile it asks each
// checkInterval whether the backend hears of changes. It calls deaf whenever the backend has ceased
// to tell the worker, and returns an error if it never will again.
func (w *Waker) Listen(ctx context.Context, log *CallLog, tell func(driver.Signal), deaf func()) error {
	if w.Waiter == nil {
		return nil
	}
	setCanWake := func(can bool) {
		if w.canWake.Swap(can) && !can {
			deaf()
		}
	}
	checking, endChecking := context.WithCancel(ctx)
	var checks sync.WaitGroup
	checks.Go(func() {
		for Sleep(checking, checkInterval) {
			err := w.Waiter.CheckListen(w.worker)
			setCanWake(err == nil)
			log.Report(err)
		}
	})
	err := w.Waiter.Listen(ctx, w.worker, w.queues, tell)
	endChecking()
	checks.Wait()
	setCanWake(false)
	w.hasGivenUp.Store(true)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
