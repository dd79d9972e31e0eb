package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// maxClaim is the most jobs of one claim: a longer batch is no faster. Twice as many may wait,
	// so that one claim is under way while slots work through the jobs of the claim before.
	maxClaim    = 1000
	maxPrefetch = 2 * maxClaim
	// maxUnsettled is how many outcomes may wait to be settled before the worker stops claiming. It
	// keeps a slow database from falling further behind.
	maxUnsettled = 5000
	// claimPause is the longest pause after a claim that came back short, and pauseShare how many
	// times as long as the claim the pause is. Without the pause, claims of one or two jobs would
	// keep the machine busy while jobs trickle in.
	claimPause = 3 * time.Millisecond
	pauseShare = 2
	// groupPrefetch divides Prefetch where jobs have groups: a job of another group should not wait
	// behind many that were claimed before it came.
	groupPrefetch = 4
	// lastTriesEach is how many jobs in their last attempt start without a claim ahead, for each one
	// that was released. With 1, a worker that has only such jobs released each of them once.
	lastTriesEach = 4
	// claimBytes bounds the payloads and headers of one claim, and of the jobs that wait besides.
	// maxShrinkage is how often the worker halves claimBytes, and the number of jobs, at most,
	// while claims are not answered in time.
	claimBytes   = 16 << 20
	maxShrinkage = 10
	// claimTimeout bounds a claim whose answer never arrives.
	claimTimeout = 10 * time.Second
	// longestClaim bounds a claim after payloads that were not read within claimTimeout. During it
	// no other job is claimed.
	longestClaim = 2 * time.Minute
)

// startClaiming starts the claim loop, which begins no claim after ctx has ended. A claim that is
// under way then continues until the caller calls end.
func (r *run) startClaiming(ctx context.Context) (end context.CancelFunc) {
	claims, end := context.WithCancel(context.WithoutCancel(ctx))
	r.isClaiming = true
	go func() {
		r.claimLoop(ctx, claims)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.isClaiming = false
		r.noteIdle()
	}()
	return end
}

// claimLoop claims as many jobs as there is room for. After a claim that comes back short it
// pauses. After a claim that comes back empty it announces that it will sleep, claims once more,
// and sleeps. It does so at once if the first claim after a sleep comes back short: where jobs come
// one by one, the next claim would be empty. It returns when ctx has ended and the last claim has
// returned, or when the first claim shows that the backend is not set up. Claims do not end with
// ctx but with claims, because the worker has to release the jobs of the claim that is under way.
func (r *run) claimLoop(ctx, claims context.Context) {
	log := r.watchCalls("claim")
	hasClaimed := false // a claim has succeeded
	isAsleep := false   // Sleep has been called, and no job found since
	isFirst := false    // the claim is the first one after awaitJobs
	var until time.Time // while asleep: how long the answer of Sleep is valid
	for ctx.Err() == nil {
		n, free := r.roomNow()
		if _, mayClaim := r.kindsToClaim(); n == 0 || !mayClaim {
			r.awaitRoom(ctx)
			continue
		}
		before := time.Now()
		got, isFull, err := r.claimOnce(claims, n, free)
		took := time.Since(before)
		r.noteClaim(before, err)
		var setup *queue.SetupError
		if !hasClaimed && errors.As(err, &setup) {
			r.quit(fmt.Errorf("queue: worker %s cannot claim: %w", r.Name, err))
			return
		}
		hasClaimed = hasClaimed || err == nil
		if err != nil && claims.Err() != nil {
			r.Logger.Warn("errand: claim given up at shutdown; its jobs run again when their leases have expired", "error", err)
			return
		}
		if pause := log.report(err); err != nil {
			r.noteOutage()
			sleep(ctx, pause)
			continue
		}
		wasFirst := isFirst
		isFirst = false
		switch {
		case isFull:
			isAsleep = false
		case got > 0 && !wasFirst:
			isAsleep = false
			r.pauseClaims(ctx, min(pauseShare*took, claimPause))
		case got > 0 || !isAsleep:
			isAsleep = true
			until = r.announceSleep(ctx)
		default:
			isAsleep = r.awaitJobs(ctx, until)
			isFirst = true
		}
	}
}

// pauseClaims waits for d. It returns sooner if jobs are settled meanwhile that keep others from
// being claimed while they run, and no job is left to run.
func (r *run) pauseClaims(ctx context.Context, d time.Duration) {
	select {
	case <-r.drained: // by jobs of an earlier claim
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-r.drained:
	case <-t.C:
	}
}

// claimOnce claims at most n jobs and starts them; free slots can start so many at once. It returns
// how many it got, and whether the claim came back full: then more jobs are due.
func (r *run) claimOnce(ctx context.Context, n, free int) (got int, full bool, err error) {
	before := time.Now()
	if before.After(r.slowUntil) {
		r.claimTime = claimTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, r.claimTime)
	defer cancel()
	r.forgetDue(before)
	req := r.sizedRequest(n)
	req.Ahead = max(req.Limit-free, 0)
	jobs, err := r.Backend.Claim(ctx, req)
	if slow, ok := errors.AsType[*driver.SlowError](err); ok {
		r.noteSlow(slow)
		return 0, true, nil
	}
	r.adjustSize(err, time.Since(before))
	if err != nil {
		return 0, false, err
	}
	full = isFull(req, jobs)
	r.noteBacklog(full, jobs)
	r.startJobs(ctx, jobs, before)
	return len(jobs), full, nil
}

// noteSlow logs that a payload could not be read in time, and gives the next claims twice the time,
// up to two thirds of the lease, until the job has come again.
func (r *run) noteSlow(slow *driver.SlowError) {
	r.Logger.Warn("errand: payload not read in time, job released; claims get more time",
		append(jobAttrs(slow.Job), "due_in", slow.Delay, "error", slow.Err)...)
	r.claimTime = max(r.claimTime, min(2*r.claimTime, r.Lease*2/3, longestClaim))
	r.slowUntil = time.Now().Add(2 * slow.Delay)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteDue(time.Now().Add(slow.Delay))
}

// isFull reports whether a claim returned as many jobs as it asked for (of limited queues, as many
// as slots are free), or so many bytes that the next job may not have fitted.
func isFull(req queue.ClaimRequest, jobs []*queue.Job) bool {
	bytes := 0
	for _, job := range jobs {
		bytes += sizeOf(job)
	}
	return len(jobs) == req.Limit || bytes > req.Bytes/2 ||
		len(jobs) > 0 && len(jobs) == req.Limit-req.Ahead && jobs[len(jobs)-1].Limited
}

// sizedRequest returns the request for n jobs, or for fewer if claims were not answered in time.
func (r *run) sizedRequest(n int) queue.ClaimRequest {
	kinds, ok := r.kindsToClaim()
	if !ok { // paused since roomNow: hold releases the jobs
		kinds = r.kinds
	}
	req := r.request(kinds, max(n>>r.shrinkage, 1))
	req.Queues = r.turns.next()
	req.Bytes = claimBytes >> r.shrinkage
	return req
}

// adjustSize halves the size of the next claims after a claim that was not answered in time. It
// doubles the size after a claim so short that one of twice the size would be answered in time.
func (r *run) adjustSize(err error, took time.Duration) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.shrinkage = min(r.shrinkage+1, maxShrinkage)
	case err == nil && took < claimTimeout/4:
		r.shrinkage = max(r.shrinkage-1, 0)
	}
}

// roomNow returns how many jobs to claim now, and how many slots are free.
func (r *run) roomNow() (n, free int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeRoom(), max(r.Concurrency-r.held.unfinished(), 0)
}

// noteBacklog notes whether there is a backlog, and whether the jobs of the last claim have groups.
// There is a backlog if the claim came back full, and if it brought more jobs than there are slots:
// then jobs arrive faster than one by one, and a claim for free slots alone would be small and
// costly.
func (r *run) noteBacklog(isFull bool, jobs []*queue.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hasBacklog = isFull || len(jobs) > r.Concurrency
	if len(jobs) > 0 {
		r.hasGroups = jobs[0].Group != ""
	}
	if !r.hasBacklog {
		r.lastTries = 0
	}
}

// releaseLastAttempts releases those of the claimed jobs that are in their last attempt and would
// wait for a slot: after a crash they would be dead and have never run. free is how many of the
// jobs have a slot. The next claims are for free slots only, until lastTriesEach times as many such
// jobs have started, or until claims bring none because other workers have them. If they were many,
// later claims go only as far ahead as this one went with the other jobs, and then further. The
// caller holds r.mu.
func (r *run) releaseLastAttempts(claimed []heldJob, free int) {
	free = min(max(free, 0), len(claimed))
	started, released := 0, 0
	for i := range claimed {
		switch h := &claimed[i]; {
		case !isLastAttempt(h.job):
		case i < free:
			started++
		default:
			r.release(h)
			released++
		}
	}
	if started == 0 {
		r.lastTries /= 2
	}
	r.lastTries = max(r.lastTries-started, 0) + lastTriesEach*released
	switch ahead := len(claimed) - free; {
	case released > ahead/10:
		r.mostAhead = max(ahead-released, 1)
	case ahead > 0:
		r.mostAhead = min(2*r.mostAhead, maxPrefetch)
	}
}

// freeRoom returns how many jobs to claim now: as many as there are free slots and, while there is
// a backlog, as many more as slots will start within Prefetch. Without a backlog, other workers
// have free slots for those. To keep claims few and large, it returns 0 until slots have started
// half of the jobs that were claimed ahead. The caller holds r.mu.
func (r *run) freeRoom() int {
	if r.held.unsettled() >= maxUnsettled {
		return 0
	}
	fitting := r.sizes.fitting(claimBytes)
	ahead := 0
	if r.hasBacklog && r.lastTries == 0 {
		prefetch := r.Prefetch
		if r.hasGroups {
			prefetch /= groupPrefetch
		}
		ahead = min(r.pace.jobsWithin(prefetch, r.Concurrency), fitting, r.mostAhead)
	}
	beyond := r.held.unfinished() - r.Concurrency // jobs without a free slot; below 0, free slots
	if beyond > ahead/2 {
		return 0
	}
	free := cap(r.work) - len(r.work) // sending to r.work must not block
	return min(ahead-beyond, maxClaim, fitting, free)
}

// awaitRoom waits until there may be room, or until ctx ends.
func (r *run) awaitRoom(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-r.room:
	}
}
