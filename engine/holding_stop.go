package engine

import "time"

// stopping is what a worker that stops keeps account of.
type stopping struct {
	idle       chan struct{} // set by whenIdle, closed by noteIdle
	graceEnded time.Time     // when the contexts of handlers ended; zero before that
	// jobs released at shutdown: with handlers that were cancelled, and without
	interrupted, unstarted int
}

// releaseWaiting releases the jobs that have not been started.
func (held *holding) releaseWaiting() {
	held.mu.Lock()
	defer held.mu.Unlock()
	for h := range held.jobs.all() {
		if h.state == stateWaiting {
			held.release(h)
		}
	}
}

// released returns how many jobs were released because the worker stops: with handlers that were
// cancelled, and without.
func (held *holding) released() (interrupted, unstarted int) {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.stop.interrupted, held.stop.unstarted
}

// cancelBusy ends the contexts of the handlers that run. Those of OnDead end a little later.
func (held *holding) cancelBusy(cause error) {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.stop.graceEnded = time.Now()
	for h := range held.jobs.all() {
		if h.isBusy() && !h.isAnnounced {
			h.cancel(cause)
		}
	}
}

// whenIdle returns a channel that is closed as soon as no handler runs, and no OnDead in a slot.
func (held *holding) whenIdle() <-chan struct{} {
	held.mu.Lock()
	defer held.mu.Unlock()
	idle := make(chan struct{})
	held.stop.idle = idle
	held.noteIdle()
	return idle
}

// noteIdle closes the channel of whenIdle, once, if nothing runs. The caller holds held.mu.
func (held *holding) noteIdle() {
	if held.stop.idle != nil && held.jobs.busy == 0 {
		close(held.stop.idle)
		held.stop.idle = nil
	}
}
