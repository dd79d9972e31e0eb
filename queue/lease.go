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
	for job, f := range r.held {
		if !f.settling && !f.lost && f.lease.Before(fresh) {
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
		if f := r.held[job]; f != nil {
			f.lease = leased.Add(r.Lease)
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
	if len(jobs) == 0 || now.Sub(claimed) <= r.beat() || r.runsOut(claimed.Add(r.Lease), now) || r.serving.Err() != nil {
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

// lose notes that another has the job, or that its handler has settled it and is
// about to say so. Called with r.mu held.
func (r *run) lose(job *Job) {
	f := r.held[job]
	if f == nil || f.settling || f.lost || f.given {
		return // settled meanwhile, or about to be: Settle will tell
	}
	f.lost = true
	if f.slot == nil {
		logLost(r.Logger, job)
		r.waiting--
		r.drop(f)
		signal(r.room)
		return
	}
	f.cancel(ErrLost)
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

// runsOut says whether a lease may run out before the guard has looked again.
func (r *run) runsOut(lease, now time.Time) bool { return lease.Before(now.Add(2 * r.tick())) }

// guard ends what has too little of its lease left. The outcome is settled all the
// same: whether another has the job by then, the fence decides.
func (r *run) guard(now time.Time) {
	stacks := sync.OnceValue(allStacks) // for all that are stuck
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, f := range r.held {
		expired := r.runsOut(f.lease, now)
		switch {
		case f.slot != nil && f.ctx.Err() == nil && expired:
			r.Logger.Warn("errand: lease could not be extended", jobAttrs(job)...)
			f.cancel(ErrLost)
		case f.slot != nil && f.ctx.Err() != nil:
			r.noteStuck(f, now, stacks)
		case f.slot == nil && !f.given && expired:
			r.giveBackStale(f)
		case f.slot == nil && !f.given && now.Sub(f.came) > r.patience():
			r.pace.slow(now.Sub(f.came))
			r.giveBack(f)
		}
	}
}

// patience is how long a job that was expected to start within Prefetch may wait:
// handlers have become slow since it came, and others may be free for it.
func (r *run) patience() time.Duration { return max(10*r.Prefetch, time.Second) }
