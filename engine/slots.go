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

// runHandler runs the handler of a job and ends the run with its answer. A panic is an error. If
// the job is about to be dead, OnDead runs before that.
func (s *slots) runHandler(h *heldJob, started time.Time) {
	err := handling.ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			err = queue.RecoveredPanic(v)
		}
		took := time.Since(started)
		outcome, ok := queue.OutcomeOf(h.ctx, h.job, err)
		end := runEnd{event: eventOf(outcome, took), outcome: outcome, isSettled: !ok}
		if end.event.Type == queue.EventDead && s.OnDead != nil {
			defer func() { s.finish(h, end) }() // even if OnDead calls runtime.Goexit
			end = s.announceRun(h, end)
			return
		}
		s.finish(h, end)
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

// announceRun calls OnDead for a job whose run makes it dead, unless the worker has lost the job.
// It returns the end of the run as it is then. The call is treated like the handler: it takes the
// job's slot, the job's lease is extended meanwhile, and the guard reports it if it ignores the end
// of its context. The job is not settled yet. So if the process crashes meanwhile, the job is
// reclaimed, and OnDead is called again. If the worker stops and no time is left for OnDead, the
// job is released and not dead.
func (s *slots) announceRun(h *heldJob, dead runEnd) runEnd {
	ctx, isHeld := s.held.announce(h, s.progress)
	switch {
	case !isHeld:
	case ctx.Err() != nil:
		return releaseOf(h.job, dead.event.Took)
	default:
		s.callOnDead(ctx, dead.event)
	}
	return dead
}

// finish ends the run of a job, and logs how. If there is nothing to settle, it also counts and
// observes that; otherwise endHolds does. Settling may have settled the job before finish returns.
func (s *slots) finish(h *heldJob, end runEnd) {
	job, waited := h.job, h.waited
	h.cancel(nil)
	before, hasRoom, wasFull := s.held.finish(h, end)
	isOver := end.isSettled || before == stateLost
	if before == stateLost && !end.isSettled { // else the handler's own Settle has ended the hold
		end.event = lostEvent(job, end.event.Took)
	}
	if isOver || before == stateRunning {
		s.reporting.logEnd(end)
	}
	if isOver {
		s.reporting.countRun(end.event, waited)
	}
	if wasFull || end.isSettled && (job.Limited || job.Ordered) {
		s.wakeups.noteDue(time.Now())
	}
	if hasRoom {
		signal(s.held.room)
	}
	if isOver {
		s.observe(end.event)
	}
}
