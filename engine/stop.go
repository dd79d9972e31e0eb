package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

const (
	// stopTimeout is the longest that Run takes after Grace has ended. The last stoppedTimeout of it
	// is for the report that the worker has stopped.
	stopTimeout = 8 * time.Second
	// awaitCancelled is how much of stopTimeout Run waits for cancelled handlers and for a
	// cancelled claim. The rest is for settling.
	awaitCancelled = 3 * time.Second
)

// awaitGrace releases the jobs that wait for a slot. It returns when nothing runs any more or when
// Grace is over. The channel that it returns is closed as soon as nothing runs any more.
func (r *run) awaitGrace() (idle <-chan struct{}) {
	r.held.releaseWaiting()
	r.logStopping()
	idle = r.whenIdle()
	grace := time.NewTimer(r.Grace)
	defer grace.Stop()
	select {
	case <-idle:
	case <-grace.C:
	case <-r.Halt:
	}
	return idle
}

// cancelHandlers cancels the handlers that run and waits for them. It returns how many still run.
func (r *run) cancelHandlers(idle <-chan struct{}) (stuck int) {
	r.held.cancelBusy(queue.ErrShutdown)
	timeout := time.NewTimer(awaitCancelled)
	defer timeout.Stop()
	select {
	case <-idle:
	case <-timeout.C:
		var found findings
		stuck, found = r.held.abandonStuck()
		r.logFindings(found)
	}
	close(r.held.work)
	if stuck == 0 {
		r.slots.done.Wait()
	}
	return stuck
}

// stopError returns what Run returns: nil if it and the backend's own work have stopped in order.
func (r *run) stopError(stuck int) error {
	unfinished := r.unfinished(stuck)
	if undone := r.upkeep.leftUndone(); undone != nil {
		return errors.Join(unfinished, undone)
	}
	return unfinished
}

// unfinished returns an error about what the worker has left undone, or nil.
func (r *run) unfinished(stuck int) error {
	var setup *queue.SetupError
	if cause := context.Cause(r.serving); errors.As(cause, &setup) {
		return cause
	}
	unsettled := r.held.unsettled()
	if !r.claims.hasEnded() {
		return fmt.Errorf("queue: worker %s stopped while a claim that ignores its context was under way, "+
			"handlers still running: %d, outcomes not settled: %d", r.Name, stuck, unsettled)
	}
	if stuck > 0 || unsettled > 0 {
		return fmt.Errorf("queue: worker %s stopped, handlers still running: %d, outcomes not settled: %d",
			r.Name, stuck, unsettled)
	}
	if announcing := r.upkeep.stillAnnouncing(); announcing > 0 {
		return fmt.Errorf("queue: worker %s stopped, calls of OnDead still running: %d", r.Name, announcing)
	}
	return nil
}

// logStopping logs for how many handlers the worker waits, if there are any, and for how long at
// most.
func (r *run) logStopping() {
	if handlers, _ := r.held.load(); handlers > 0 {
		r.Logger.Info("errand: worker shuts down, waits for its handlers", "handlers", handlers, "grace", r.Grace)
	}
}

// logReleased logs how many jobs were released because the worker stops.
func (r *run) logReleased() {
	if interrupted, unstarted := r.held.released(); interrupted > 0 || unstarted > 0 {
		r.Logger.Info("errand: jobs released at shutdown", "interrupted", interrupted, "unstarted", unstarted)
	}
}

// whenIdle returns a channel that is closed as soon as nothing runs: not the claim loop, no
// handler, no OnDead, and no call that tells of dead jobs. None of them begins again once the
// worker stops.
func (r *run) whenIdle() <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		<-r.claims.ended
		<-r.held.whenIdle()
		<-r.upkeep.whenIdle()
	}()
	return idle
}
