package router

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Backends that fail.
//
//   - Problem: a backend that does not answer must not stop the queues of the others.
//   - Rule: after a failure, calls that can do without the backend leave it out for a while, and
//     then wait for it for at most probeTimeout. Calls that name its jobs ask it each time.
//   - Bounds: a backend that hangs costs the others one claim of half its time, and then one
//     probeTimeout in each longestPause. Claimed jobs wait for it for probeTimeout at most.
//   - Test: TestClaimBesideHanging, TestDown.

const (
	// shortestPause is how long a backend is left out after its first failure; each further one
	// doubles that, up to longestPause.
	shortestPause = 50 * time.Millisecond
	longestPause  = 5 * time.Second
	// probeTimeout is how long other backends wait for one that has failed.
	probeTimeout = time.Second
	// settlingDown is how long after an outage a backend's jobs are not reclaimed: leases have expired
	// although their holders live. A failure of less than shortestOutage is none.
	settlingDown   = 6 * time.Second
	shortestOutage = time.Second
)

// health is how a backend has lately answered. The zero value is that of one that works.
type health struct {
	log     *slog.Logger
	backend int // its number

	mu       sync.Mutex
	failures int       // since it last worked
	since    time.Time // of the first of them
	last     time.Time // of the last failure
	outage   time.Time // when the last outage ended; zero: never
}

// isLeftOut reports whether calls should do without the backend for now.
func (h *health) isLeftOut() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures > 0 && time.Since(h.last) < min(shortestPause<<min(h.failures-1, 10), longestPause)
}

// isSuspect reports whether the backend has failed since it last worked.
func (h *health) isSuspect() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures > 0
}

// isSettlingDown reports whether the backend is in an outage, or has been lately.
func (h *health) isSettlingDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures > 0 && time.Since(h.since) >= shortestOutage || !h.outage.IsZero() && time.Since(h.outage) < settlingDown
}

// note notes what a call has come to. ctx is the caller's.
func (h *health) note(ctx context.Context, err error) {
	if err != nil && !isFailure(ctx, err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		if h.failures == 0 {
			h.since = time.Now()
			h.log.Error("errand: a backend of the router has failed, its queues wait, will retry", "backend", h.backend, "error", err)
		}
		h.failures++
		h.last = time.Now()
	case h.failures > 0:
		h.log.Info("errand: a backend of the router works again",
			"backend", h.backend, "failures", h.failures, "failed_for", time.Since(h.since))
		if time.Since(h.since) >= shortestOutage {
			h.outage = time.Now()
		}
		h.failures = 0
	}
}

// isFailure reports whether err says that the backend does not work, and not that the caller has
// asked for something wrong or has given up.
func isFailure(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	for _, is := range []bool{
		isA[*queue.InvalidError](err), isA[*driver.LockedError](err), isA[*driver.SlowError](err), isA[*driver.PartialError](err),
	} {
		if is {
			return false
		}
	}
	return true
}

func isA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
