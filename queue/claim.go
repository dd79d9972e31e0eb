package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// maxClaim is the most jobs of one claim: a longer batch is no faster. Twice as
	// many may wait, so that the next is under way while one is worked off.
	maxClaim    = 1000
	maxPrefetch = 2 * maxClaim
	// maxUnsettled is how many outcomes may wait to be settled before claiming
	// stops, so that a slow database is not buried in work.
	maxUnsettled = 5000
	// claimPause is the longest to wait after a claim that came back short, and
	// pauseShare how much longer than the claim took: where jobs trickle in, claims of
	// one or two would eat the machine.
	claimPause = 3 * time.Millisecond
	pauseShare = 2
	// claimTimeout bounds a claim that the network has swallowed.
	claimTimeout = 10 * time.Second
	// longestSleep is the longest without a call of Sleep, whose announcement holds for a minute.
	longestSleep = 30 * time.Second
)

// startClaiming starts the claim loop, which begins no claim after ctx has ended. The
// claim that is under way then goes on until the returned function is called.
func (r *run) startClaiming(ctx context.Context) (end context.CancelFunc) {
	claims, end := context.WithCancel(context.WithoutCancel(ctx))
	r.claiming = true
	go func() {
		r.claim(ctx, claims)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.claiming = false
		r.noteIdle()
	}()
	return end
}

// claim is the claim loop: claim as much as there is room for; when that comes
// back short, pause; when it comes back empty, register as asleep, look once
// more, and sleep. It returns when ctx has ended and the last claim is back, or where the
// first claim tells that the backend is not set up. Claims outlast ctx, until the end
// of claims: what the one that is under way has taken must be known, to be given back.
func (r *run) claim(ctx, claims context.Context) {
	db := r.watch("claim")
	worked := false // a claim has succeeded
	asleep := false
	next := time.Duration(-1) // until the next scheduled job, once asleep
	for ctx.Err() == nil {
		n := r.roomNow()
		if n == 0 {
			r.awaitRoom(ctx)
			continue
		}
		before := time.Now()
		got, err := r.claimOnce(claims, n)
		took := time.Since(before)
		var setup *SetupError
		if !worked && errors.As(err, &setup) {
			r.quit(fmt.Errorf("queue: worker %s cannot claim: %w", r.Name, err))
			return
		}
		worked = worked || err == nil
		if err != nil && claims.Err() != nil {
			r.Logger.Warn("errand: claim given up at shutdown; what it has taken runs again when its lease runs out", "worker", r.Name)
			return
		}
		if pause := db.report(err); err != nil {
			r.noteOutage()
			sleep(ctx, pause)
			continue
		}
		switch {
		case got == n:
			asleep = false
		case got > 0:
			asleep = false
			sleep(ctx, min(pauseShare*took, claimPause))
		case !asleep:
			asleep = true
			next = r.fallAsleep(ctx)
		default:
			asleep = false
			r.awaitJobs(ctx, next)
		}
	}
}

// claimOnce makes one claim, of n jobs, and starts those that it got.
func (r *run) claimOnce(ctx context.Context, n int) (got int, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	before := time.Now()
	r.forgetDue(before)
	jobs, err := r.Backend.Claim(ctx, r.request(r.kinds, n))
	if err != nil {
		return 0, err
	}
	r.noteBacklog(len(jobs) == n)
	r.start(ctx, jobs, before)
	return len(jobs), nil
}

func (r *run) roomNow() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeRoom()
}

// noteBacklog notes whether the last claim came back full.
func (r *run) noteBacklog(full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backlog = full
}

// freeRoom is how many jobs to claim now: those that free slots can take, and, where
// there is a backlog, those expected to start within Prefetch. Without a backlog other
// workers have slots free for them. Ahead of need it waits until half of that has been
// used up, so that claims are few and large. Called with r.mu held.
func (r *run) freeRoom() int {
	if r.unsettled >= maxUnsettled {
		return 0
	}
	ahead := 0
	if r.backlog {
		ahead = r.pace.ahead(r.Prefetch, r.Concurrency)
	}
	beyond := r.running + r.waiting - r.Concurrency // jobs for which no slot is free; below 0, free slots
	if beyond > ahead/2 {
		return 0
	}
	return min(ahead-beyond, maxClaim, cap(r.work)-len(r.work)) // sending to work must not block
}

func (r *run) awaitRoom(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-r.room:
	}
}

// fallAsleep announces to the backend that the worker will sleep, if it can be woken.
func (r *run) fallAsleep(ctx context.Context) (next time.Duration) {
	waiter, ok := As[Waiter](r.Backend)
	if !ok {
		return -1
	}
	select {
	case <-r.wake: // what it announced has just been looked for
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	next, err := waiter.Sleep(ctx, r.Name, r.Queues)
	if err != nil {
		return -1 // the claim that follows meets the same trouble, and reports it
	}
	return next
}

// awaitJobs waits until there may be jobs: woken by the backend, when the next
// scheduled one is due, when one that this worker has given back is due again, or
// after Poll.
func (r *run) awaitJobs(ctx context.Context, next time.Duration) {
	d := min(r.Poll, longestSleep)
	if next >= 0 {
		d = min(d, next)
	}
	for end := time.Now().Add(d); ; {
		timer := time.NewTimer(time.Until(r.beforeDue(end)))
		select {
		case <-r.soon:
			timer.Stop()
			continue
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
		return
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
	if err := waiter.Listen(ctx, r.Name, r.Queues, func() { signal(r.wake) }); err != nil && ctx.Err() == nil {
		r.Logger.Info("errand: worker polls", "worker", r.Name, "poll", r.Poll, "reason", err)
	}
}
