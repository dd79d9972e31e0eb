package gateway

import (
	"context"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// sweepInterval is how often the gateway drops what nobody uses any longer.
const sweepInterval = time.Minute

// startUpkeep starts what workers with a connection to the database do beside their work. It goes
// on until the gateway is closed.
func (h *Handler) startUpkeep() {
	if reclaimer, ok := driver.As[driver.Reclaimer](h.queue); ok {
		h.running.Go(func() { h.reclaimLoop(reclaimer) })
		h.running.Go(func() { upkeep.PruneLoop(h.ctx, reclaimer, h.watchCalls("prune")) })
	}
	if runner, ok := driver.As[driver.Scheduler](h.queue); ok {
		h.running.Go(func() { upkeep.FireLoop(h.ctx, runner, h.watchCalls("firing schedules"), nil, func() {}) })
	}
	if pauser, ok := driver.As[driver.Pauser](h.queue); ok {
		h.followPauses(pauser)
	}
	h.running.Go(h.sweepLoop)
	h.running.Go(h.keepReported)
}

// reclaimLoop reclaims jobs whose leases have expired until the gateway is closed.
func (h *Handler) reclaimLoop(reclaimer driver.Reclaimer) {
	log := h.watchCalls("reclaim")
	for upkeep.Sleep(h.ctx, h.options.Reclaim) {
		err := upkeep.Reclaim(h.ctx, h.ctx, reclaimer, func(jobs []*queue.Job) {
			h.deaths.note(h.ledger.Reclaimed(jobs...))
		})
		if !upkeep.IsPartial(err) { // the backend that stands for several logs it
			h.report(log, err)
		}
	}
}

// sweepLoop drops what nobody uses any longer until the gateway is closed.
func (h *Handler) sweepLoop() {
	for upkeep.Sleep(h.ctx, sweepInterval) {
		h.sweep(time.Now())
		h.answers.sweep()
		h.rates.requests.sweep()
		h.rates.enqueued.sweep()
	}
}

// watchCalls returns a CallLog for the gateway's own calls of that operation.
func (h *Handler) watchCalls(operation string) *upkeep.CallLog {
	return upkeep.NewCallLog(h.options.Logger, "gateway: "+operation)
}

// report reports what a call returned, unless Close has ended it.
func (h *Handler) report(log *upkeep.CallLog, err error) {
	if h.ctx.Err() == nil {
		log.Report(err)
	}
}

// upkeepContext returns a context for a call that ends with the gateway.
func (h *Handler) upkeepContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(h.ctx, callTimeout)
}
