package engine

import (
	"context"
	"slices"
	"sync"
	"time"

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

// poll returns how often to claim while nothing says that there are jobs.
func (r *run) poll() time.Duration {
	switch {
	case r.Poll > 0:
		return min(r.Poll, longestSleep)
	case r.canWake.Load():
		return wokenPoll
	}
	return defaultPoll
}

// announceSleep tells the backend that the worker is about to sleep. It returns how long the answer
// is valid: until the next scheduled job is due, but at most longestSleep. If the backend does not
// wake the worker, the answer is valid until the next poll.
func (r *run) announceSleep(ctx context.Context) (until time.Time) {
	now := time.Now()
	waiter, ok := driver.As[driver.Waiter](r.Backend)
	if !ok {
		return now.Add(longestSleep)
	}
	select {
	case <-r.wake: // the claim before has already looked for that job
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	next, err := waiter.Sleep(ctx, r.Name, r.Queues)
	signal(r.tick)
	valid := longestSleep
	if err != nil || !r.canWake.Load() { // the claim that follows fails as well and reports the error
		valid = r.poll()
	}
	if err == nil && next >= 0 {
		valid = min(valid, time.Since(now)+next)
	}
	return now.Add(valid)
}

// awaitJobs waits until there may be jobs: until the backend wakes the worker, the next scheduled
// job is due, a job that this worker has released or retried is due, or Poll has passed. It reports
// whether the worker is still asleep, because the answer of Sleep is still valid.
func (r *run) awaitJobs(ctx context.Context, until time.Time) (isAsleep bool) {
	began := time.Now()
	for {
		end := began.Add(r.poll()) // shorter if the backend has ceased to wake the worker
		if until.Before(end) {
			end = until
		}
		timer := time.NewTimer(time.Until(r.beforeDue(end)))
		select {
		case <-r.soon:
			timer.Stop()
			continue
		case <-ctx.Done():
		case <-r.wake:
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
// latest: the next call of Sleep, or the poll, finds those jobs. The caller holds r.mu.
func (r *run) noteDue(at time.Time) {
	i, isNoted := slices.BinarySearchFunc(r.dueAgain, at, time.Time.Compare)
	if isNoted || i == maxDue {
		return
	}
	r.dueAgain = slices.Insert(r.dueAgain[:min(len(r.dueAgain), maxDue-1)], i, at)
	if i == 0 {
		signal(r.soon)
	}
}

// forgetDue forgets the jobs that noteDue has noted if they are due by now, because a claim
// follows.
func (r *run) forgetDue(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, isNoted := slices.BinarySearchFunc(r.dueAgain, now, time.Time.Compare)
	if isNoted {
		n++
	}
	r.dueAgain = slices.Delete(r.dueAgain, 0, n)
}

// beforeDue returns end, or the first time that noteDue has noted if that is sooner.
func (r *run) beforeDue(end time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dueAgain) > 0 && r.dueAgain[0].Before(end) {
		return r.dueAgain[0]
	}
	return end
}

// listen lets the backend wake the claim loop, if it can, until ctx ends.
func (r *run) listen(ctx context.Context) {
	waiter, ok := driver.As[driver.Waiter](r.Backend)
	if !ok {
		return
	}
	r.canWake.Store(true)
	checking, endChecking := context.WithCancel(ctx)
	var checks sync.WaitGroup
	checks.Go(func() { r.checkListen(checking) })
	err := waiter.Listen(ctx, r.Name, r.Queues, func() { signal(r.wake) })
	endChecking()
	checks.Wait()
	r.setCanWake(false)
	if err != nil && ctx.Err() == nil {
		r.Logger.Info("errand: the backend cannot wake the worker, worker polls", "poll", r.poll(), "error", err)
	}
}

// checkListen asks each second whether the backend hears of jobs, if it can tell, until ctx ends.
// The worker polls while it does not.
func (r *run) checkListen(ctx context.Context) {
	checker, ok := driver.As[driver.Waiter](r.Backend)
	if !ok {
		return
	}
	log := r.watchCalls("listening for jobs")
	for sleep(ctx, defaultPoll) {
		err := checker.CheckListen(r.Name)
		r.setCanWake(err == nil)
		log.report(err)
	}
}

// setCanWake notes whether the backend wakes the worker. A sleep that has begun already gets the
// Poll that goes with it.
func (r *run) setCanWake(can bool) {
	if r.canWake.Swap(can) && !can {
		signal(r.soon)
	}
}
