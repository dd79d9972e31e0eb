package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

const (
	// stopTimeout is the longest that Run takes after Grace has ended.
	stopTimeout = 8 * time.Second
	// awaitCancelled is how much of stopTimeout Run waits for cancelled handlers and for a
	// cancelled claim. The rest is for settling.
	awaitCancelled = 3 * time.Second
)

// awaitGrace releases the jobs that wait for a slot. It returns when nothing runs any more or when
// Grace is over. The channel that it returns is closed as soon as nothing runs any more.
func (r *run) awaitGrace() (idle <-chan struct{}) {
	r.releaseWaiting()
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
	r.cancelBusy(queue.ErrShutdown)
	timeout := time.NewTimer(awaitCancelled)
	defer timeout.Stop()
	select {
	case <-idle:
	case <-timeout.C:
		stuck = r.releaseStuck()
	}
	close(r.work)
	if stuck == 0 {
		r.slotsDone.Wait()
	}
	return stuck
}

// stopError returns what Run returns: nil if it and the backend's own work have stopped in order.
func (r *run) stopError(stuck int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.undone == nil {
		return r.unfinished(stuck)
	}
	return errors.Join(r.unfinished(stuck), r.undone)
}

// unfinished returns an error about what the worker has left undone, or nil. The caller has locked
// r.mu.
func (r *run) unfinished(stuck int) error {
	var setup *queue.SetupError
	if cause := context.Cause(r.serving); errors.As(cause, &setup) {
		return cause
	}
	unsettled := r.held.unsettled()
	if r.isClaiming {
		return fmt.Errorf("queue: worker %s stopped while a claim that ignores its context was under way, "+
			"with %d handlers still running and %d outcomes not settled", r.Name, stuck, unsettled)
	}
	if stuck > 0 || unsettled > 0 {
		return fmt.Errorf("queue: worker %s stopped with %d handlers still running and %d outcomes not settled",
			r.Name, stuck, unsettled)
	}
	if r.announcing > 0 {
		return fmt.Errorf("queue: worker %s stopped with %d calls of OnDead still running", r.Name, r.announcing)
	}
	return nil
}

// releaseWaiting releases the jobs that have not been started.
func (r *run) releaseWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.held.all() {
		if h.state == stateWaiting {
			r.release(h)
		}
	}
}

// cancelBusy ends the contexts of the handlers that run. Those of OnDead end a little later.
func (r *run) cancelBusy(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.graceEnded = time.Now()
	for h := range r.held.all() {
		if h.isBusy() && !h.isAnnounced {
			h.cancel(cause)
		}
	}
}

// whenIdle returns a channel that is closed as soon as nothing runs: no handler, no OnDead, no call
// that tells of dead jobs, and not the claim loop.
func (r *run) whenIdle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = make(chan struct{})
	idle := r.idle
	r.noteIdle()
	return idle
}

// noteIdle closes the channel of whenIdle, once, if nothing runs. The caller holds r.mu.
func (r *run) noteIdle() {
	if r.idle != nil && r.held.busy == 0 && r.announcing == 0 && !r.isClaiming {
		close(r.idle)
		r.idle = nil
	}
}
