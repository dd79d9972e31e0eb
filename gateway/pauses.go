package gateway

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

// pausePoll is how often the gateway reads which kinds are paused where the backend does not say
// when that changes, and after a failure. Otherwise it reads them each pauseInterval.
const (
	pausePoll     = 5 * time.Second
	pauseInterval = 30 * time.Second
)

// pauses are the paused kinds. Claims for named kinds leave them out, as a worker with a connection
// to the database does by itself.
type pauses struct {
	kinds atomic.Pointer[[]string]
}

// without returns kinds without the paused ones. isPaused says that none is left, though there were
// some.
func (p *pauses) without(kinds []string) (left []string, isPaused bool) {
	paused := p.kinds.Load()
	if paused == nil || len(*paused) == 0 || len(kinds) == 0 {
		return kinds, false
	}
	left = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return slices.Contains(*paused, kind) })
	return left, len(left) == 0
}

// watchPauses keeps h.pauses up to date until the gateway is closed.
func (h *Handler) watchPauses() {
	pauser, ok := driver.As[driver.Pauser](h.queue)
	if !ok {
		return
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	var canListen atomic.Bool
	canListen.Store(true)
	h.running.Go(func() {
		if err := pauser.ListenPauses(h.ctx, notify); err != nil {
			canListen.Store(false)
			notify()
		}
	})
	for {
		interval := pauseInterval
		if err := h.readPauses(pauser); err != nil || !canListen.Load() {
			interval = pausePoll
		}
		timer := time.NewTimer(interval)
		select {
		case <-h.ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		if timer.Stop(); h.ctx.Err() != nil {
			return
		}
	}
}

// readPauses reads which kinds are paused. If some are resumed, the groups claim again.
func (h *Handler) readPauses(p driver.Pauser) error {
	ctx, cancel := context.WithTimeout(h.ctx, callTimeout)
	defer cancel()
	kinds, err := p.PausedKinds(ctx)
	if err != nil {
		return err
	}
	before := h.pauses.kinds.Swap(&kinds)
	isResumed := func(kind string) bool { return !slices.Contains(kinds, kind) }
	if before != nil && slices.ContainsFunc(*before, isResumed) {
		for _, l := range h.lookoutsOf("") {
			l.wake()
		}
	}
	return nil
}

// unpaused returns kinds without the paused ones. isPaused says that none is left, though there
// were some. The first claim does not wait for watchPauses to have read them.
func (h *Handler) unpaused(kinds []string) (left []string, isPaused bool, err error) {
	if pauser, ok := driver.As[driver.Pauser](h.queue); ok && len(kinds) > 0 && h.pauses.kinds.Load() == nil {
		err = h.readPauses(pauser)
	}
	left, isPaused = h.pauses.without(kinds)
	return left, isPaused, err
}
