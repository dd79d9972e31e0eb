package queue

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxBeat is the longest time between two extensions: the guide's statement
	// for stale jobs takes those whose locked_at is ten minutes old.
	maxBeat = 3 * time.Minute
	// maxExtend is the most jobs of one Extend.
	maxExtend = 5000
)

// extendLeases extends the lease of every held job each third of it, however long that
// takes, until ctx ends; after a failure it tries again sooner.
func (r *run) extendLeases(ctx context.Context) {
	db := r.watch("extend")
	beat := r.beat()
	pause := beat
	for sleep(ctx, pause) {
		pause = beat
		jobs := r.toExtend()
		if len(jobs) == 0 {
			continue // says nothing of the database
		}
		begun := time.Now()
		err := r.extendAll(ctx, jobs)
		if ctx.Err() != nil {
			return
		}
		pause -= time.Since(begun)
		if again := db.report(err); err != nil {
			r.noteOutage()
			pause = min(again, beat/4)
		}
	}
}

// beat is the time between two extensions.
func (r *run) beat() time.Duration { return min(r.Lease/3, maxBeat) }

func (r *run) extendAll(ctx context.Context, jobs []*Job) error {
	for len(jobs) > 0 {
		n := min(len(jobs), maxExtend)
		if err := r.extend(ctx, jobs[:n]); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// toExtend lists the held jobs whose leases the next beat may find too short.
// What is being settled is left out: two statements would meet on its row.
func (r *run) toExtend() (jobs []*Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := time.Now().Add(r.Lease - r.beat()/2)
	for job, h := range r.held.jobs {
		if h.state != stateSettling && h.state != stateLost && h.expires.Before(fresh) {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

func (r *run) extend(ctx context.Context, jobs []*Job) error {
	lost, leased, err := r.callExtend(ctx, jobs)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range jobs {
		if h := r.held.jobs[job]; h != nil {
			h.expires = leased.Add(r.Lease)
		}
	}
	for _, job := range lost {
		r.lose(job)
	}
	return nil
}

// callExtend calls Extend. The leases of the jobs that are not lost run from leased on.
func (r *run) callExtend(ctx context.Context, jobs []*Job) (lost []*Job, leased time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Lease/3)
	defer cancel()
	leased = time.Now()
	lost, err = r.Backend.Extend(ctx, r.Lease, jobs...)
	return lost, leased, err
}

// extendLate extends the leases of jobs whose claim was on its way for longer than a
// beat, before they are held: they were no part of the beat that has passed, and
// until the next one their handlers might be cancelled. It returns those that have not
// been lost, and since when they are leased. A failure the next beat reports.
func (r *run) extendLate(ctx context.Context, jobs []*Job, claimed time.Time) (left []*Job, leased time.Time) {
	now := time.Now()
	if len(jobs) == 0 || now.Sub(claimed) <= r.beat() || r.endsSoon(claimed.Add(r.Lease), now) || r.serving.Err() != nil {
		return jobs, claimed
	}
	lost, leased, err := r.callExtend(ctx, jobs)
	if err != nil {
		return jobs, claimed
	}
	for _, job := range lost {
		logLost(r.Logger, job)
	}
	return slices.DeleteFunc(jobs, func(job *Job) bool { return slices.Contains(lost, job) }), leased
}

// lose notes that Extend has reported a job lost. Either another worker holds it, or its own
// handler has settled it and will return Settled. The caller holds r.mu.
func (r *run) lose(job *Job) {
	h := r.held.jobs[job]
	if h == nil {
		return // settled meanwhile
	}
	switch r.held.lose(h) {
	case stateWaiting:
		logLost(r.Logger, job)
		signal(r.room)
	case stateRunning:
		h.cancel(ErrLost)
	}
}

// guardLeases ends the contexts of handlers whose leases are about to run out
// because they could not be extended, and reports handlers that ignore that
// their context has ended, until ctx ends.
func (r *run) guardLeases(ctx context.Context) {
	for sleep(ctx, r.tick()) {
		r.guard(time.Now())
	}
}

// tick is the time between two looks at the leases.
func (r *run) tick() time.Duration { return min(r.Lease/12, stuckAfter/2) }

// endsSoon says whether a lease may run out before the guard has looked again.
func (r *run) endsSoon(lease, now time.Time) bool { return lease.Before(now.Add(2 * r.tick())) }

// guard ends what has too little of its lease left. The outcome is settled all the
// same: whether another has the job by then, the fence decides.
func (r *run) guard(now time.Time) {
	stacks := sync.OnceValue(allStacks) // for all that are stuck
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, h := range r.held.jobs {
		endsSoon := r.endsSoon(h.expires, now)
		waited := now.Sub(h.since)
		switch {
		case h.isBusy() && h.ctx.Err() == nil && endsSoon:
			r.Logger.Warn("errand: lease could not be extended", jobAttrs(job)...)
			h.cancel(ErrLost)
		case h.isBusy() && h.ctx.Err() != nil:
			r.noteStuck(h, now, stacks)
		case h.state == stateWaiting && endsSoon:
			r.giveBackStale(h)
		case h.state == stateWaiting && waited > r.longestWait():
			r.pace.atLeast(waited)
			r.giveBack(h)
		}
	}
}

// longestWait is how long a job that was expected to start within Prefetch may wait:
// handlers have become slow since it came, and others may be free for it.
func (r *run) longestWait() time.Duration { return max(10*r.Prefetch, time.Second) }
