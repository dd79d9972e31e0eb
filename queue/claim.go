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
	// claimBytes is how long the payloads and headers of one claim may be together, and of what waits
	// besides. maxEased is how often it is halved at most, and so are the jobs, while claims are not answered in time.
	claimBytes = defaultClaimBytes
	maxEased   = 10
	// claimTimeout bounds a claim that the network has swallowed.
	claimTimeout = 10 * time.Second
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
	var until time.Time // how long what Sleep said holds, once asleep
	for ctx.Err() == nil {
		n := r.roomNow()
		if n == 0 {
			r.awaitRoom(ctx)
			continue
		}
		before := time.Now()
		got, full, err := r.claimOnce(claims, n)
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
		case full:
			asleep = false
		case got > 0:
			asleep = false
			sleep(ctx, min(pauseShare*took, claimPause))
		case !asleep:
			asleep = true
			until = r.fallAsleep(ctx)
		default:
			asleep = r.awaitJobs(ctx, until)
		}
	}
}

// claimOnce makes one claim, of n jobs, and starts those that it got. It says whether
// the claim came back full: then more jobs are due.
func (r *run) claimOnce(ctx context.Context, n int) (got int, full bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	before := time.Now()
	r.forgetDue(before)
	req := r.sized(n)
	jobs, err := r.Backend.Claim(ctx, req)
	r.ease(err, time.Since(before))
	if err != nil {
		return 0, false, err
	}
	full = isFull(req, jobs)
	r.noteBacklog(full)
	r.startJobs(ctx, jobs, before)
	return len(jobs), full, nil
}

// isFull reports whether a claim brought as many jobs as it asked for, or so many bytes
// that the next job may have had no room.
func isFull(req ClaimRequest, jobs []*Job) bool {
	bytes := 0
	for _, job := range jobs {
		bytes += job.size()
	}
	return len(jobs) == req.Limit || bytes > req.Bytes/2
}

// sized is the request for n jobs, or fewer where claims have not been answered in time.
func (r *run) sized(n int) ClaimRequest {
	req := r.request(r.kinds, max(n>>r.eased, 1))
	req.Bytes = claimBytes >> r.eased
	return req
}

// ease halves what the next claims ask for after one that was not answered in time, and doubles it after one
// that took so little time that twice as much would come in time.
func (r *run) ease(err error, took time.Duration) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.eased = min(r.eased+1, maxEased)
	case err == nil && took < claimTimeout/4:
		r.eased = max(r.eased-1, 0)
	}
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
	if r.held.unsettled() >= maxUnsettled {
		return 0
	}
	fit := r.sizes.fit(claimBytes)
	ahead := 0
	if r.backlog {
		ahead = min(r.pace.ahead(r.Prefetch, r.Concurrency), fit)
	}
	beyond := r.held.unfinished() - r.Concurrency // jobs for which no slot is free; below 0, free slots
	if beyond > ahead/2 {
		return 0
	}
	return min(ahead-beyond, maxClaim, fit, cap(r.work)-len(r.work)) // sending to work must not block
}

func (r *run) awaitRoom(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-r.room:
	}
}
