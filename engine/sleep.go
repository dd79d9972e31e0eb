package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue/driver"
)

// wakeups let the claim loop sleep, and wake it.
type wakeups struct {
	*shared
	waker *upkeep.Waker
	wake  chan struct{} // signals the claim loop: the backend says that there may be jobs
	soon  chan struct{} // signals the claim loop: dueAgain has become earlier
	tick  chan struct{} // signals the tick loop: the backend may have learned of schedules

	pauses chan struct{} // signals the pause loop: the paused kinds may have changed

	mu       sync.Mutex
	dueAgain []time.Time // when released and retried jobs are due, in order; at most maxDue
}

func newWakeups(s *shared) *wakeups {
	return &wakeups{
		shared: s, waker: upkeep.NewWaker(s.Backend, s.Name, s.Queues, s.Poll),
		wake: make(chan struct{}, 1), soon: make(chan struct{}, 1), tick: make(chan struct{}, 1),
		pauses: make(chan struct{}, 1),
	}
}

// announceSleep tells the backend that the worker is about to sleep. It returns how long the answer
// is valid: until the next scheduled job is due, but at most upkeep.LongestSleep. If the backend
// does not wake the worker, the answer is valid until the next poll.
func (w *wakeups) announceSleep(ctx context.Context) (until time.Time) {
	now := time.Now()
	if w.waker.Waiter == nil {
		return now.Add(upkeep.LongestSleep)
	}
	select {
	case <-w.wake: // the claim before has already looked for that job
	default:
	}
	announced, err := w.waker.Announce(ctx)
	signal(w.tick)
	if err != nil || !w.waker.CanWake() { // the claim that follows fails as well and reports the error
		announced.Valid = now.Add(w.waker.Poll())
	}
	return announced.End()
}

// awaitJobs waits until there may be jobs: until the backend wakes the worker, the next scheduled
// job is due, a job that this worker has released or retried is due, or Poll has passed. It reports
// whether the worker is still asleep, because the answer of Sleep is still valid.
func (w *wakeups) awaitJobs(ctx context.Context, until time.Time) (isAsleep bool) {
	began := time.Now()
	for {
		end := began.Add(w.waker.Poll()) // shorter if the backend has ceased to wake the worker
		if until.Before(end) {
			end = until
		}
		timer := time.NewTimer(time.Until(w.beforeDue(end)))
		select {
		case <-w.soon:
			timer.Stop()
			continue
		case <-ctx.Done():
		case <-w.wake:
		case <-timer.C:
			return time.Now().Before(until)
		}
		timer.Stop()
		return false
	}
}

// maxDue is how many times of jobs that are due again the worker keeps.
const maxDue = 1000

// noteDue notes that a job that this worker has released or retried is due at that time. The claim
// loop claims then, even if it would sleep for longer. Of more than maxDue times it forgets the
// latest: the next call of Sleep, or the poll, finds those jobs.
func (w *wakeups) noteDue(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, isNoted := slices.BinarySearchFunc(w.dueAgain, at, time.Time.Compare)
	if isNoted || i == maxDue {
		return
	}
	w.dueAgain = slices.Insert(w.dueAgain[:min(len(w.dueAgain), maxDue-1)], i, at)
	if i == 0 {
		signal(w.soon)
	}
}

// forgetDue forgets the jobs that noteDue has noted if they are due by now, because a claim
// follows.
func (w *wakeups) forgetDue(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, isNoted := slices.BinarySearchFunc(w.dueAgain, now, time.Time.Compare)
	if isNoted {
		n++
	}
	w.dueAgain = slices.Delete(w.dueAgain, 0, n)
}

// beforeDue returns end, or the first time that noteDue has noted if that is sooner.
func (w *wakeups) beforeDue(end time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dueAgain) > 0 && w.dueAgain[0].Before(end) {
		return w.dueAgain[0]
	}
	return end
}

// listen lets the backend wake the claim loop and tell of other changes, if it can, until ctx ends.
// hint gets the jobs that the worker may be asked to cancel. While the backend cannot, a sleep that
// has begun already gets the Poll that goes with that, and the paused kinds are read more often.
func (w *wakeups) listen(ctx context.Context, hint func(ids ...int64)) {
	tell := func(s driver.Signal) {
		if s.Jobs {
			signal(w.wake)
		}
		if s.Cancels {
			hint(s.IDs...)
		}
		if s.Pauses {
			signal(w.pauses)
		}
	}
	err := w.waker.Listen(ctx, w.watchCalls("listening for jobs"), tell, func() { signal(w.soon); signal(w.pauses) })
	if err != nil {
		w.Logger.Info("errand: the backend cannot wake the worker, worker polls", "poll", w.waker.Poll(), "error", err)
	}
}
