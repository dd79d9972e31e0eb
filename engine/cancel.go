package engine

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Cancelling jobs that run.
//
//   - Problem: a person wants a running job to end. Its worker may be any process, and it must not
//     take a heartbeat to learn of it where the backend can notify it.
//   - Rule: the database says which jobs are to be cancelled, in each answer of Extend. A
//     notification is only a hint to extend the named jobs now. So nothing is lost with a lost
//     notification, and a forged one cancels nothing.
//   - Bounds: one Extend at a time for all hints that have come meanwhile. Hints about jobs that
//     the worker does not hold yet, because their claim is under way, are kept for claimTimeout,
//     and at most maxHints of them.
//   - Test: TestCancelRunning, TestCancelHinted.

// maxHints is how many hints about jobs that the worker does not hold are kept.
const maxHints = 10_000

// hints are the jobs that the backend has named as to be cancelled.
type hints struct {
	all  bool                // any job may be: the backend cannot tell which
	jobs map[int64]time.Time // by ID: when the backend named it
}

// listenCancels lets the backend tell at once which jobs to cancel, if it can, until ctx ends.
func (r *run) listenCancels(ctx context.Context) {
	if canceller, ok := driver.As[driver.Canceller](r.Backend); ok {
		_ = canceller.ListenCancels(ctx, r.Name, r.noteHint) // without it, heartbeats tell
	}
}

// noteHint notes that the backend has named jobs as to be cancelled, or all jobs if it names none.
func (r *run) noteHint(ids ...int64) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hints.all = r.hints.all || len(ids) == 0
	for _, id := range ids {
		if r.hints.jobs == nil || len(r.hints.jobs) >= maxHints {
			r.hints.jobs = make(map[int64]time.Time)
		}
		r.hints.jobs[id] = now
	}
	signal(r.hinted)
}

// hintLoop extends the leases of the jobs that noteHint has noted, until ctx ends: the answer says
// which of them to cancel. If it fails, the next heartbeat asks again and reports the error.
func (r *run) hintLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hinted:
		}
		_ = r.extendAll(ctx, r.takeHinted(time.Now()))
	}
}

// takeHinted returns the held jobs that noteHint has noted, and forgets them. It keeps the hints
// about other jobs for a while.
func (r *run) takeHinted(now time.Time) (held []*heldJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.held.all() {
		_, isNamed := r.hints.jobs[h.job.ID]
		if (isNamed || r.hints.all) && (h.state == stateWaiting || h.state == stateRunning) {
			held = append(held, h)
			delete(r.hints.jobs, h.job.ID)
		}
	}
	r.hints.all = false
	for id, since := range r.hints.jobs {
		if now.Sub(since) > claimTimeout {
			delete(r.hints.jobs, id)
		}
	}
	return held
}

// cancelHeld cancels a held job, as Extend has asked: its handler's context ends with ErrCancelled.
// A job that has not been started is released, and the backend cancels it instead. The caller holds
// r.mu.
func (r *run) cancelHeld(h *heldJob) {
	h.isAsked = true
	switch {
	case h.state == stateWaiting:
		r.Logger.Info(msgCancelled, jobAttrs(h.job)...)
		r.release(h)
	case h.state == stateRunning && !h.isAnnounced:
		h.cancel(queue.ErrCancelled)
	}
}
