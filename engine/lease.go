package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

const (
	// maxHeartbeat is the longest time between two heartbeats. The guide's statement for stale jobs
	// reclaims jobs whose locked_at is ten minutes old.
	maxHeartbeat = 3 * time.Minute
	// maxExtend is the most jobs of one Extend.
	maxExtend = 5000
)

// extendLoop extends the leases of all held jobs at each heartbeat, until ctx ends. After a failure
// it retries sooner.
func (r *run) extendLoop(ctx context.Context) {
	log := r.watchCalls("extend")
	heartbeat := r.heartbeat()
	pause := heartbeat
	for sleep(ctx, pause) {
		pause = heartbeat
		held := r.toExtend()
		if len(held) == 0 {
			continue // not a sign that the database works: report nothing
		}
		begun := time.Now()
		err := r.extendAll(ctx, held)
		if ctx.Err() != nil {
			return
		}
		pause -= time.Since(begun)
		if again := log.report(err); err != nil {
			r.noteOutage()
			pause = min(again, heartbeat/4)
		}
	}
}

// heartbeat returns the time between two heartbeats.
func (r *run) heartbeat() time.Duration { return min(r.Lease/3, maxHeartbeat) }

// extendAll extends the leases of held jobs, in batches. It stops at the first error that concerns
// a whole batch.
func (r *run) extendAll(ctx context.Context, held []*heldJob) (err error) {
	for batch := range slices.Chunk(held, maxExtend) {
		if failed := r.extend(ctx, batch); failed != nil {
			err = failed
			if !isPartial(failed) {
				break
			}
		}
	}
	return err
}

// toExtend returns the held jobs that run, because the answer says which of them to cancel, and
// those whose leases would be too short at the next heartbeat. It leaves out the jobs that a Settle
// under way names: two statements would compete for their rows.
func (r *run) toExtend() (held []*heldJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := time.Now().Add(r.Lease - r.heartbeat()/2)
	for h := range r.held.all() {
		if h.state == stateRunning || h.state != stateSettling && h.state != stateLost && h.expires.Before(fresh) {
			held = append(held, h)
		}
	}
	return held
}

// extend extends the leases of a batch, and cancels the handlers of jobs that are lost or
// cancelled.
func (r *run) extend(ctx context.Context, batch []*heldJob) error {
	lost, asked, leased, err := r.callExtend(ctx, r.jobsOf(batch))
	if err != nil && !isPartial(err) {
		return err
	}
	r.observe(lostEvents(r.noteExtended(withoutFailed(batch, err), lost, asked, leased))...)
	return err
}

// jobsOf returns the jobs of a batch, without those that were settled meanwhile.
func (r *run) jobsOf(batch []*heldJob) (jobs []*queue.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range batch {
		if h.state != stateEnded {
			jobs = append(jobs, h.job)
		}
	}
	return jobs
}

// noteExtended notes when the leases of a batch end, which of its jobs are lost, and which to
// cancel. It returns the lost ones that have not been started.
func (r *run) noteExtended(batch []*heldJob, lost, asked []*queue.Job, leased time.Time) (unstarted []*queue.Job) {
	isLost, isAsked := setOf(lost), setOf(asked)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range batch {
		job := h.job
		switch {
		case h.state == stateEnded: // settled meanwhile
		case isLost[job]:
			if r.lose(h) == stateWaiting {
				unstarted = append(unstarted, job)
			}
		default:
			h.expires = leased.Add(r.Lease)
			if isAsked[job] {
				r.cancelHeld(h)
			}
		}
	}
	return unstarted
}

func setOf(jobs []*queue.Job) map[*queue.Job]bool {
	set := make(map[*queue.Job]bool, len(jobs))
	for _, job := range jobs {
		set[job] = true
	}
	return set
}

// callExtend calls Extend. The leases of the jobs that are not lost begin at leased.
func (r *run) callExtend(ctx context.Context, jobs []*queue.Job) (lost, asked []*queue.Job, leased time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Lease/3)
	defer cancel()
	leased = time.Now()
	lost, asked, err = r.Backend.Extend(ctx, r.Lease, jobs...)
	return lost, asked, leased, err
}

// extendLate extends the leases of jobs whose claim took longer than a heartbeat. The heartbeat
// that has passed did not include these jobs, and at the next one their leases may be too short. It
// returns the jobs that are not lost, and when their leases began. If Extend fails, the next
// heartbeat fails as well and reports the error.
func (r *run) extendLate(ctx context.Context, jobs []*queue.Job, claimed time.Time) (left []*queue.Job, leased time.Time) {
	now := time.Now()
	if len(jobs) == 0 || now.Sub(claimed) <= r.heartbeat() || r.endsSoon(claimed.Add(r.Lease), now) || r.serving.Err() != nil {
		return jobs, claimed
	}
	lost, _, leased, err := r.callExtend(ctx, jobs) // the next heartbeat says again which to cancel
	if err != nil {
		return jobs, claimed
	}
	for _, job := range lost {
		logLost(r.Logger, job)
	}
	r.observe(lostEvents(lost)...)
	return slices.DeleteFunc(jobs, func(job *queue.Job) bool { return slices.Contains(lost, job) }), leased
}

// lose notes that Extend has reported a job lost. Either a different worker holds it, or its own
// handler has settled it and is about to return ErrSettled. It returns the job's state before. The
// caller holds r.mu.
func (r *run) lose(h *heldJob) (before heldState) {
	job := h.job
	before = r.held.lose(h)
	switch before {
	case stateWaiting:
		logLost(r.Logger, job)
		signal(r.room)
	case stateRunning:
		h.cancel(queue.ErrLost)
	}
	return before
}

// guardLoop checks all held jobs at short intervals, until ctx ends. It also logs how many failures
// had no record of their own.
func (r *run) guardLoop(ctx context.Context) {
	for sleep(ctx, r.guardInterval()) {
		now := time.Now()
		r.guard(now)
		r.failures.summarize(now)
	}
}

// guardInterval returns the time between two checks of the held jobs.
func (r *run) guardInterval() time.Duration { return min(r.Lease/12, stuckAfter/2) }

// endsSoon reports whether a lease may expire before the next check.
func (r *run) endsSoon(expires, now time.Time) bool {
	return expires.Before(now.Add(2 * r.guardInterval()))
}

// guard cancels handlers whose leases are about to expire because they could not be extended. It
// reports handlers that ignore the end of their context, and releases jobs that wait for too long.
// The worker settles the outcome of a cancelled handler nevertheless: the fence decides whether the
// job is lost.
func (r *run) guard(now time.Time) {
	stacks := sync.OnceValue(dumpStacks) // for all stuck handlers
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.held.all() {
		endsSoon := r.endsSoon(h.expires, now)
		waited := now.Sub(h.since)
		switch {
		case h.isBusy() && h.ctx.Err() == nil && endsSoon:
			r.Logger.Warn("errand: lease could not be extended in time, handler cancelled", jobAttrs(h.job)...)
			h.cancel(queue.ErrLost)
		case h.isBusy() && h.ctx.Err() != nil:
			r.noteStuck(h, now, stacks)
		case h.state == stateWaiting && endsSoon:
			r.releaseStale(h)
		case h.state == stateWaiting && waited > r.longestWait():
			r.pace.atLeast(waited)
			r.release(h)
		}
	}
}

// longestWait returns how long a job that was expected to start within Prefetch may wait. After
// that, handlers have become slow, and other workers may have free slots.
func (r *run) longestWait() time.Duration { return max(10*r.Prefetch, time.Second) }
