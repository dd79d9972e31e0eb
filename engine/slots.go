package engine

import (
	"context"
	"time"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
)

// startJobs holds claimed jobs, so that their leases are extended from now on, and passes them to
// the slots. It starts the slots that are missing.
func (r *run) startJobs(ctx context.Context, jobs []*queue.Job, claimed time.Time) {
	jobs, leased := r.extendLate(ctx, jobs, claimed)
	held, newSlots := r.hold(jobs, leased)
	for range newSlots {
		r.slotsDone.Go(r.runSlot)
	}
	for i := range held {
		r.work <- &held[i] // never blocks: the channel holds as many as may wait
	}
}

// hold holds claimed jobs, and returns how many more slots they need: one for each job for which no
// slot is idle, up to Concurrency. If the worker is about to stop, hold releases the jobs and
// returns none.
func (r *run) hold(jobs []*queue.Job, leased time.Time) (held []heldJob, newSlots int) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	free := r.Concurrency - r.held.unfinished()
	held = r.held.add(jobs, now, leased.Add(r.Lease))
	for _, job := range jobs {
		r.sizes.add(job)
	}
	if len(r.hints.jobs) > 0 {
		signal(r.hinted) // a hint may be about one of the jobs
	}
	if r.serving.Err() != nil { // the claim was under way when the worker was stopped
		for i := range held {
			r.release(&held[i])
		}
		return nil, 0
	}
	for i := range held {
		if r.isPaused(held[i].job) { // since the claim began
			r.release(&held[i])
		}
	}
	r.releaseLastAttempts(held, free)
	newSlots = max(min(r.held.unfinished(), r.Concurrency)-r.slots, 0)
	r.slots += newSlots
	return held, newSlots
}

// runSlot runs jobs, one after the other, until there will be no more. A handler that calls
// runtime.Goexit ends the goroutine; runSlot then starts a new one.
func (r *run) runSlot() {
	isDone := false
	defer func() {
		if !isDone {
			r.slotsDone.Go(r.runSlot)
		}
	}()
	s := currentSlot()
	for h := range r.work {
		now := time.Now()
		if r.startHandler(h, s, now) {
			r.runHandler(h, now)
		} else {
			signal(r.room) // the job has left its place in r.work
		}
	}
	isDone = true
}

// runHandler runs the handler of a job and records its answer. A panic is an error. If the job is
// about to be dead, OnDead runs before that.
func (r *run) runHandler(h *heldJob, started time.Time) {
	err := handling.ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			err = queue.RecoveredPanic(v)
		}
		took := time.Since(started)
		outcome, hasOutcome := queue.OutcomeOf(h.ctx, h.job, err)
		if hasOutcome && outcome.Action == queue.Dead && r.OnDead != nil {
			defer func() { r.finish(h, outcome, hasOutcome, took) }() // even if OnDead calls runtime.Goexit
			outcome = r.announceRun(h, outcome)
			return
		}
		r.finish(h, outcome, hasOutcome, took)
	}()
	if h.job.Unreadable != nil {
		err = queue.Discard(h.job.Unreadable)
		return
	}
	if r.Observe != nil {
		r.callObserve(queue.Event{Type: queue.EventStarted, Job: h.job})
	}
	err = r.Handler.HandleJob(h.ctx, h.job)
}

// startHandler gives a waiting job its context and reports whether its handler should run. It
// should not if the job was lost or released while it waited, if the worker stops, or if the lease
// is about to expire. A lease is about to expire if the claim took long or the process was frozen.
func (r *run) startHandler(h *heldJob, s slot, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.state != stateWaiting || r.serving.Err() != nil {
		return false
	}
	if r.endsSoon(h.expires, now) {
		r.releaseStale(h)
		return false
	}
	h.waited = now.Sub(dueAt(h.job))
	ctx, cancel := r.handlerContext(h.job.Kind)
	own := r.held.newContext(ctx, r)
	own.job.Store(h.job)
	r.held.start(h, s, own, cancel)
	return true
}

// handlerContext returns the context for a handler of that kind, which ends after the Timeout of
// the kind or of the worker.
func (r *run) handlerContext(kind string) (context.Context, context.CancelCauseFunc) {
	timeout := r.Timeout
	if own, ok := r.timeouts[kind]; ok {
		timeout = own
	}
	return cancelAfter(r.handlers, timeout)
}

// cancelAfter returns a context that ends after the timeout, or when cancel is called. A timeout of
// 0 or below means no limit.
func cancelAfter(parent context.Context, timeout time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if timeout <= 0 {
		return ctx, cancel
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	return ctx, func(cause error) { cancel(cause); stop() }
}

// finish ends the run of a job, and logs its outcome. Settling may have settled the job before
// finish returns.
func (r *run) finish(h *heldJob, outcome queue.Outcome, hasOutcome bool, took time.Duration) {
	job := h.job
	h.cancel(nil)
	before, hasRoom := r.noteFinished(h, outcome, hasOutcome, took)
	switch {
	case !hasOutcome: // also if the job is lost: then the handler's own Settle has ended the hold
	case before == stateRunning:
		r.logOutcome(outcome)
	case before == stateLost:
		logLost(r.Logger, job)
	}
	if hasRoom {
		signal(r.room)
	}
	switch {
	case r.Observe == nil:
	case !hasOutcome:
		r.observe(queue.Event{Type: queue.EventCompleted, Job: job, Took: took})
	case before == stateLost:
		r.observe(queue.Event{Type: queue.EventLost, Job: job, Err: queue.ErrLost, Took: took})
	}
}

// noteFinished ends the run of a handler. It returns the job's state before, and whether there is
// room to claim now.
func (r *run) noteFinished(h *heldJob, o queue.Outcome, hasOutcome bool, took time.Duration) (before heldState, hasRoom bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pace.add(took)
	if (h.job.Limited || h.job.Ordered) && !hasOutcome { // otherwise endHolds does so
		r.noteDue(time.Now())
	}
	if !hasOutcome { // otherwise noteSettled counts it
		r.tallies.addRun(r.minuteNow(), h.job, queue.Done, took, h.waited)
	}
	h.ctx.forget()
	if h.state == stateRunning {
		h.took = took
	}
	before = r.held.finish(h, o, hasOutcome)
	if before == stateRunning && hasOutcome {
		if o.Action == queue.Release && o.Delay == 0 && r.serving.Err() != nil {
			r.interrupted++ // a snooze has a delay
		}
		signal(r.settle)
	}
	r.noteIdle()
	return before, r.freeRoom() > 0
}

// release releases a job that has not been started. It keeps its place in its queue. The caller
// holds r.mu.
func (r *run) release(h *heldJob) {
	if h.state == stateWaiting && r.serving.Err() != nil {
		r.unstarted++
	}
	r.held.release(h)
	signal(r.settle)
}

// releaseStale releases a job whose lease is about to expire before the job has been started. The
// caller holds r.mu.
func (r *run) releaseStale(h *heldJob) {
	r.Logger.Warn("errand: lease is about to expire before the job was started, job released", jobAttrs(h.job)...)
	r.release(h)
}
