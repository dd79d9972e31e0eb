package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopTimeout is how long Run takes at most once Grace is over, and awaitCancelled
// how much of that it waits for cancelled handlers and a cancelled claim. The rest is
// for settling.
const (
	stopTimeout    = 8 * time.Second
	awaitCancelled = 3 * time.Second
)

// awaitGrace gives back what waits, and returns when nothing runs any more or Grace
// is over. It returns a channel that is closed as soon as nothing runs any more.
func (r *run) awaitGrace() (idle <-chan struct{}) {
	r.releaseWaiting()
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

// endHandlers cancels the handlers that run. It returns how many ignored that.
func (r *run) endHandlers(idle <-chan struct{}) (stuck int) {
	r.cancelRunning(ErrShutdown)
	last := time.NewTimer(awaitCancelled)
	defer last.Stop()
	select {
	case <-idle:
	case <-last.C:
		stuck = r.releaseStuck()
	}
	close(r.work)
	if stuck == 0 {
		r.slotsDone.Wait()
	}
	return stuck
}

func (r *run) answer(stuck int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var setup *SetupError
	if cause := context.Cause(r.serving); errors.As(cause, &setup) {
		return cause
	}
	if r.claiming {
		return fmt.Errorf("queue: worker %s stopped while a claim that ignores its context was under way, with %d handlers still running and %d outcomes not settled", r.Name, stuck, r.held.unsettled())
	}
	if stuck > 0 || r.held.unsettled() > 0 {
		return fmt.Errorf("queue: worker %s stopped with %d handlers still running and %d outcomes not settled", r.Name, stuck, r.held.unsettled())
	}
	return nil
}

// releaseWaiting gives back the jobs that have not been started.
func (r *run) releaseWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held.jobs {
		if h.state == stateWaiting {
			r.giveBack(h)
		}
	}
}

// cancelRunning ends the contexts of the handlers that run.
func (r *run) cancelRunning(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held.jobs {
		if h.isBusy() {
			h.cancel(cause)
		}
	}
}

// whenIdle returns a channel that is closed as soon as neither a handler nor the
// claim loop runs.
func (r *run) whenIdle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = make(chan struct{})
	idle := r.idle
	r.noteIdle()
	return idle
}

// noteIdle is called with r.mu held.
func (r *run) noteIdle() {
	if r.idle != nil && r.held.busy == 0 && !r.claiming {
		close(r.idle)
		r.idle = nil
	}
}
