package engine

import (
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// toExtend returns the held jobs that run, because the answer says which of them to cancel, and
// those whose leases would be too short at the next heartbeat. It leaves out the jobs that a Settle
// under way names: two statements would compete for their rows.
func (held *holding) toExtend() (batch []*heldJob) {
	held.mu.Lock()
	defer held.mu.Unlock()
	fresh := time.Now().Add(held.Lease - held.heartbeat()/2)
	for h := range held.jobs.all() {
		if h.state == stateRunning || h.state != stateSettling && h.state != stateLost && h.expires.Before(fresh) {
			batch = append(batch, h)
		}
	}
	return batch
}

// jobsOf returns the jobs of a batch, without those that were settled meanwhile.
func (held *holding) jobsOf(batch []*heldJob) (jobs []*queue.Job) {
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, h := range batch {
		if h.state != stateEnded {
			jobs = append(jobs, h.job)
		}
	}
	return jobs
}

// extended notes when the leases of a batch end, which of its jobs are lost, and which to cancel.
// It returns those that have not been started: the lost jobs, and the cancelled ones.
func (held *holding) extended(batch []*heldJob, lost, asked []*queue.Job, leased time.Time) (unstarted, cancelled []*queue.Job) {
	isLost, isAsked := setOf(lost), setOf(asked)
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, h := range batch {
		job := h.job
		switch {
		case h.state == stateEnded: // settled meanwhile
		case isLost[job]:
			if held.lose(h) == stateWaiting {
				unstarted = append(unstarted, job)
			}
		default:
			h.expires = leased.Add(held.Lease)
			if isAsked[job] && held.cancel(h) == stateWaiting {
				cancelled = append(cancelled, job)
			}
		}
	}
	return unstarted, cancelled
}

// lose notes that Extend has reported a job lost. Either a different worker holds it, or its own
// handler has settled it and is about to return ErrSettled. It returns the job's state before. The
// caller holds held.mu.
func (held *holding) lose(h *heldJob) (before heldState) {
	before = held.jobs.lose(h)
	switch before {
	case stateWaiting:
		signal(held.room)
	case stateRunning:
		h.cancel(queue.ErrLost)
	}
	return before
}

// cancel cancels a held job, as Extend has asked: its handler's context ends with ErrCancelled. A
// job that has not been started is released, and the backend cancels it instead. It returns the
// job's state before. The caller holds held.mu.
func (held *holding) cancel(h *heldJob) (before heldState) {
	h.isAsked = true
	before = h.state
	switch {
	case before == stateWaiting:
		held.release(h)
	case before == stateRunning && !h.isAnnounced:
		h.cancel(queue.ErrCancelled)
	}
	return before
}

// named returns the jobs that hints name and that wait or run, and removes their hints.
func (held *holding) named(hints *hints) (batch []*heldJob) {
	held.mu.Lock()
	defer held.mu.Unlock()
	for h := range held.jobs.all() {
		_, isNamed := hints.jobs[h.job.ID]
		if (isNamed || hints.all) && (h.state == stateWaiting || h.state == stateRunning) {
			batch = append(batch, h)
			delete(hints.jobs, h.job.ID)
		}
	}
	return batch
}

// check cancels handlers whose leases are about to expire because they could not be extended, and
// releases jobs that wait for too long. It returns what there is to log of that, and the handlers
// that ignore the end of their context. The worker settles the outcome of a cancelled handler
// nevertheless: the fence decides whether the job is lost.
func (held *holding) check(now time.Time) (found findings) {
	stacks := sync.OnceValue(dumpStacks) // for all stuck handlers
	held.mu.Lock()
	defer held.mu.Unlock()
	for h := range held.jobs.all() {
		endsSoon := held.endsSoon(h.expires, now)
		waited := now.Sub(h.since)
		switch {
		case h.isBusy() && h.ctx.Err() == nil && endsSoon:
			found.late = append(found.late, h.job)
			h.cancel(queue.ErrLost)
		case h.isBusy() && h.ctx.Err() != nil && h.since.IsZero():
			h.since = now
		case h.isBusy() && h.ctx.Err() != nil:
			if now.Sub(h.since) >= stuckAfter {
				found.addStuck(h, stacks)
			}
		case h.state == stateWaiting && endsSoon:
			found.stale = append(found.stale, h.job)
			held.release(h)
		case h.state == stateWaiting && waited > held.longestWait():
			held.ahead.pace.atLeast(waited)
			held.release(h)
		}
	}
	return found
}

// abandonStuck releases the jobs of the handlers that still run. It returns how many run, and those
// that were not found before.
func (held *holding) abandonStuck() (stuck int, found findings) {
	stacks := sync.OnceValue(dumpStacks)
	held.mu.Lock()
	defer held.mu.Unlock()
	for h := range held.jobs.all() {
		if !h.isBusy() {
			continue
		}
		stuck++
		found.addStuck(h, stacks)
		if h.state == stateRunning {
			held.stop.interrupted++
		}
		held.jobs.abandon(h)
	}
	signal(held.finished)
	return stuck, found
}
