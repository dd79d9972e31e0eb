package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// defaultPoll is the default Poll of a worker whose backend cannot wake it.
	defaultPoll = time.Second
	// wokenPoll is the default Poll of a worker whose backend wakes it. The poll then finds only
	// jobs for which nothing was notified. An idle worker makes 0.8 transactions a second with pgx,
	// which pings an idle connection before it uses it, and 1.2 with lib/pq, beside its reports.
	wokenPoll = 5 * time.Second
	// longestSleep is the longest time between two calls of Sleep while the worker sleeps. It is
	// half of the minute for which an announcement is valid.
	longestSleep = 30 * time.Second
)

// wakeups let the claim loop sleep, and wake it.
type wakeups struct {
	*shared
	wake    chan struct{} // signals the claim loop: the backend says that there may be jobs
	soon    chan struct{} // signals the claim loop: dueAgain has become earlier
	tick    chan struct{} // signals the tick loop: the backend may have learned of schedules
	canWake atomic.Bool   // the backend wakes the worker

	mu       sync.Mutex
	dueAgain []time.Time // when released and retried jobs are due, in order; at most maxDue
}

func newWakeups(s *shared) *wakeups {
	return &wakeups{shared: s, wake: make(chan struct{}, 1), soon: make(chan struct{}, 1), tick: make(chan struct{}, 1)}
}

// poll returns how often to claim while nothing says that there are jobs.
func (w *wakeups) poll() time.Duration {
	switch {
	case w.Poll > 0:
		return min(w.Poll, longestSleep)
	case w.canWake.Load():
		return wokenPoll
	}
	return defaultPoll
}

// announceSleep tells the backend that the worker is about to sleep. It returns how long the answer
// is valid: until the next scheduled job is due, but at most longestSleep. If the backend does not
// wake the worker, the answer is valid until the next poll.
func (w *wakeups) announceSleep(ctx context.Context) (until time.Time) {
	now := time.Now()
	waiter, ok := driver.As[driver.Waiter](w.Backend)
	if !ok {
		return now.Add(longestSleep)
	}
	select {
	case <-w.wake: // the claim before has already looked for that job
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	next, err := waiter.Sleep(ctx, w.Name, w.Queues)
	signal(w.tick)
	valid := longestSleep
	if err != nil || !w.canWake.Load() { // the claim that follows fails as well and reports the error
		valid = w.poll()
	}
	if err == nil && next >= 0 {
		valid = min(valid, time.Since(now)+next)
	}
	return now.Add(valid)
}

// awaitJobs waits until there may be jobs: until the backend wakes the worker, the next scheduled
// job is due, a job that this worker has released or retried is due, or Poll has passed. It reports
// whether the worker is still asleep, because the answer of Sleep is still valid.
func (w *wakeups) awaitJobs(ctx context.Context, until time.Time) (isAsleep bool) {
	began := time.Now()
	for {
		end := began.Add(w.poll()) // shorter if the backend has ceased to wake the worker
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

// listen lets the backend wake the claim loop, if it can, until ctx ends.
func (w *wakeups) listen(ctx context.Context) {
	waiter, ok := driver.As[driver.Waiter](w.Backend)
	if !ok {
		return
	}
	w.canWake.Store(true)
	err := upkeep.Listen(ctx, waiter, w.Name, w.Queues, func() { signal(w.wake) }, w.watchCalls("listening for jobs"), w.setCanWake)
	if err != nil && ctx.Err() == nil {
		w.Logger.Info("errand: the backend cannot wake the worker, worker polls", "poll", w.poll(), "error", err)
	}
}

// setCanWake notes whether the backend wakes the worker. A sleep that has begun already gets the
// Poll that goes with it.
func (w *wakeups) setCanWake(can bool) {
	if w.canWake.Swap(can) && !can {
		signal(w.soon)
	}
}
