package gateway

import (
	"slices"
	"sync/atomic"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue/driver"
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

// readPauses reads which kinds are paused.
func (h *Handler) readPauses(p driver.Pauser) error {
	return upkeep.ReadPauses(h.ctx, p, h.setPauses)
}

// setPauses notes which kinds are paused. If some are resumed, the groups claim again.
func (h *Handler) setPauses(kinds []string) {
	before := h.pauses.kinds.Swap(&kinds)
	isResumed := func(kind string) bool { return !slices.Contains(kinds, kind) }
	if before != nil && slices.ContainsFunc(*before, isResumed) {
		for _, l := range h.lookoutsOf("") {
			l.wake()
		}
	}
}

// unpaused returns kinds without the paused ones. isPaused says that none is left, though there
// were some. The first claim does not wait for the upkeep to have read them.
func (h *Handler) unpaused(kinds []string) (left []string, isPaused bool, err error) {
	if pauser, ok := driver.As[driver.Pauser](h.queue); ok && len(kinds) > 0 && h.pauses.kinds.Load() == nil {
		err = h.readPauses(pauser)
	}
	left, isPaused = h.pauses.without(kinds)
	return left, isPaused, err
}
