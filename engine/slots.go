package engine

import (
	"sync"
	"time"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
)

// slots are the goroutines that run handlers.
type slots struct {
	*shared
	held      *holding
	wakeups   *wakeups
	reporting *reporting
	progress  *progressing
	done      sync.WaitGroup
}

// start passes jobs to the slots, and starts the slots that are missing.
func (s *slots) start(jobs []heldJob, newSlots int) {
	for range newSlots {
		s.done.Go(s.runSlot)
	}
	for i := range jobs {
		s.held.work <- &jobs[i] // never blocks: the channel holds as many as may wait
	}
}

// runSlot runs jobs, one after the other, until there will be no more. A handler that calls
// runtime.Goexit ends the goroutine; runSlot then starts a new one.
func (s *slots) runSlot() {
	isDone := false
	defer func() {
		if !isDone {
			s.done.Go(s.runSlot)
		}
	}()
	own := currentSlot()
	for h := range s.held.work {
		now := time.Now()
		if isStarted, stale := s.held.start(h, own, s.progress, now); isStarted {
			s.runHandler(h, now)
		} else {
			s.logStale(stale...)
			signal(s.held.room) // the job has left its place in held.work
		}
	}
	isDone = true
}

// runHandler runs the handler of a job and records its answer. A panic is an error. If the job is
// about to be dead, OnDead runs before that.
func (s *slots) runHandler(h *heldJob, started time.Time) {
	err := handling.ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			err = queue.RecoveredPanic(v)
		}
		took := time.Since(started)
		outcome, hasOutcome := queue.OutcomeOf(h.ctx, h.job, err)
		if hasOutcome && outcome.Action == queue.Dead && s.OnDead != nil {
			defer func() { s.finish(h, outcome, hasOutcome, took) }() // even if OnDead calls runtime.Goexit
			outcome = s.announceRun(h, outcome)
			return
		}
		s.finish(h, outcome, hasOutcome, took)
	}()
	if h.job.Unreadable != nil {
		err = queue.Discard(h.job.Unreadable)
		return
	}
	if s.Observe != nil {
		s.callObserve(queue.Event{Type: queue.EventStarted, Job: h.job})
	}
	err = s.Handler.HandleJob(h.ctx, h.job)
}

// announceRun calls OnDead for a job whose handler has returned with that outcome, unless the
// worker has lost the job. It returns the outcome to settle. The call is treated like the handler:
// it takes the job's slot, the job's lease is extended meanwhile, and the guard reports it if it
// ignores the end of its context. The job is not settled yet. So if the process crashes meanwhile,
// the job is reclaimed, and OnDead is called again. If the worker stops and no time is left for
// OnDead, the job is released and not dead.
func (s *slots) announceRun(h *heldJob, dead queue.Outcome) queue.Outcome {
	ctx, isHeld := s.held.announce(h, s.progress)
	switch {
	case !isHeld:
	case ctx.Err() != nil:
		return queue.Outcome{Job: h.job, Action: queue.Release}
	default:
		s.callOnDead(ctx, h.job, dead.Err)
	}
	return dead
}

// finish ends the run of a job, and logs its outcome. Settling may have settled the job before
// finish returns.
func (s *slots) finish(h *heldJob, outcome queue.Outcome, hasOutcome bool, took time.Duration) {
	job, waited := h.job, h.waited
	h.cancel(nil)
	before, hasRoom := s.held.finish(h, outcome, hasOutcome, took)
	switch {
	case !hasOutcome: // also if the job is lost: then the handler's own Settle has ended the hold
		s.reporting.countRun(job, queue.Done, took, waited)
		if job.Limited || job.Ordered { // otherwise endHolds does so
			s.wakeups.noteDue(time.Now())
		}
	case before == stateRunning:
		s.reporting.logOutcome(outcome)
	case before == stateLost:
		logLost(s.Logger, job)
	}
	if hasRoom {
		signal(s.held.room)
	}
	switch {
	case s.Observe == nil:
	case !hasOutcome:
		s.observe(queue.Event{Type: queue.EventCompleted, Job: job, Took: took})
	case before == stateLost:
		s.observe(queue.Event{Type: queue.EventLost, Job: job, Err: queue.ErrLost, Took: took})
	}
}
