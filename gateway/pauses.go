package gateway

import (
	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue/driver"
)

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
