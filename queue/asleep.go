package queue

import (
	"context"
	"time"
)

const (
	// defaultPoll is how often to look for jobs where nothing wakes the worker.
	defaultPoll = time.Second
	// wokenPoll is how often where the backend does: the poll then only finds what notified nobody. An idle worker makes
	// 0.8 transactions a second so over pgx, which pings a connection that has been idle, and 1.2 over lib/pq.
	wokenPoll = 5 * time.Second
	// longestSleep is the longest without a call of Sleep, whose announcement holds for a minute.
	longestSleep = 30 * time.Second
)

// poll is how often to look for jobs when nothing says that there are some.
func (r *run) poll() time.Duration {
	switch {
	case r.Poll > 0:
		return min(r.Poll, longestSleep)
	case r.woken.Load():
		return wokenPoll
	}
	return defaultPoll
}

// fallAsleep announces to the backend that the worker will sleep. It returns how long what Sleep says
// holds: until the next scheduled job is due, for half of the minute that the announcement lasts, or, where nothing
// wakes the worker, until the poll.
func (r *run) fallAsleep(ctx context.Context) (until time.Time) {
	now := time.Now()
	waiter, ok := As[Waiter](r.Backend)
	if !ok {
		return now.Add(longestSleep)
	}
	select {
	case <-r.wake: // what it announced has just been looked for
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	next, err := waiter.Sleep(ctx, r.Name, r.Queues)
	holds := longestSleep
	if err != nil || !r.woken.Load() { // an error: the claim that follows meets the same trouble, and reports it
		holds = r.poll()
	}
	if err == nil && next >= 0 {
		holds = min(holds, time.Since(now)+next)
	}
	return now.Add(holds)
}

// awaitJobs waits until there may be jobs: woken by the backend, when the next
// scheduled one is due, when one that this worker has given back is due again, or
// after Poll. It reports whether the worker is still asleep: what Sleep said still holds.
func (r *run) awaitJobs(ctx context.Context, until time.Time) (asleep bool) {
	end := time.Now().Add(r.poll())
	if until.Before(end) {
		end = until
	}
	for {
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

// noteDue notes that a job that was given back is due again at that time. The claim
// loop looks for it then, however long it would sleep. Called with r.mu held.
func (r *run) noteDue(at time.Time) {
	if r.dueAgain.IsZero() || at.Before(r.dueAgain) {
		r.dueAgain = at
		signal(r.soon)
	}
}

// forgetDue forgets what is due by now: a claim is about to look for it. What is due
// later than that the next call of Sleep tells.
func (r *run) forgetDue(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dueAgain.After(now) {
		r.dueAgain = time.Time{}
	}
}

// beforeDue is end, or when the first job that was given back is due, if that is sooner.
func (r *run) beforeDue(end time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dueAgain.IsZero() && r.dueAgain.Before(end) {
		return r.dueAgain
	}
	return end
}

// listen lets the backend wake the claim loop, if it can.
func (r *run) listen(ctx context.Context) {
	waiter, ok := As[Waiter](r.Backend)
	if !ok {
		return
	}
	r.woken.Store(true)
	err := waiter.Listen(ctx, r.Name, r.Queues, func() { signal(r.wake) })
	r.woken.Store(false)
	if err != nil && ctx.Err() == nil {
		r.Logger.Info("errand: worker polls", "worker", r.Name, "poll", r.poll(), "reason", err)
	}
}
