package gateway

import (
	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue/driver"
)

// followPauses reads which kinds are paused whenever they may have changed, until the gateway is
// closed. It listens for that without queues.
func (h *Handler) followPauses(pauser driver.Pauser) {
	waker, changed := upkeep.NewWaker(h.queue, h.name+"-pauses", nil, 0), make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // the loop has yet to notice the one before
		}
	}
	h.running.Go(func() {
		_ = h.readPauses(pauser) // if it fails, the loop reads them and reports the error
		upkeep.PauseLoop(h.ctx, pauser, waker, changed, h.watchCalls("read paused kinds"), h.setPauses)
	})
	h.running.Go(func() {
		tell := func(s driver.Signal) {
			if s.Pauses {
				signal()
			}
		}
		_ = waker.Listen(h.ctx, h.watchCalls("listening for pauses"), tell, signal) // without it, the loop polls
	})
}

// readPauses reads which kinds are paused.
func (h *Handler) readPauses(p driver.Pauser) error {
	return upkeep.ReadPauses(h.ctx, p, h.setPauses)
}

// setPauses notes which kinds are paused. If some are resumed, the groups claim again.
func (h *Handler) setPauses(kinds []string) {
	if h.pauses.Set(kinds) {
		for _, l := range h.lookoutsOf("") {
			l.wake()
		}
	}
}

// unpaused returns kinds without the paused ones. isPaused says that none is left, though there
// were some. The first claim does not wait for the upkeep to have read them.
func (h *Handler) unpaused(kinds []string) (left []string, isPaused bool, err error) {
	if pauser, ok := driver.As[driver.Pauser](h.queue); ok && len(kinds) > 0 && !h.pauses.AreKnown() {
		err = h.readPauses(pauser)
	}
	left, isPaused = h.pauses.Without(kinds)
	return left, isPaused, err
}
