package gateway

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

const (
	// maxReclaim is how many jobs one call reclaims.
	maxReclaim = 1000
	// pruneInterval is how often the gateway prunes.
	pruneInterval = time.Minute
	// scheduleInterval is how often the gateway looks for schedules, at least.
	scheduleInterval = 5 * time.Second
	// logInterval is how often a failure that goes on is logged at most.
	logInterval = time.Minute
)

// keepUp does what workers with a connection to the database do beside their work, until the
// gateway is closed: it reclaims expired jobs and fires schedules. keepPruned does the rest.
// Several gateways, and workers beside them, may do so at once.
func (h *Handler) keepUp() {
	reclaimer, _ := driver.As[driver.Reclaimer](h.queue)
	runner, _ := driver.As[driver.Scheduler](h.queue)
	reclaim, fire := time.NewTimer(h.options.Reclaim), time.NewTimer(0)
	reclaiming, firing := failing{what: "reclaim"}, failing{what: "firing schedules"}
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-reclaim.C:
			h.report(&reclaiming, h.reclaimAll(reclaimer))
			reclaim.Reset(h.options.Reclaim)
		case <-fire.C:
			next, err := h.fire(runner)
			h.report(&firing, err)
			fire.Reset(next)
		}
	}
}

// keepPruned prunes until the gateway is closed, and drops the groups that nobody uses. A prune may
// take long, and neither expired jobs nor schedules wait for it.
func (h *Handler) keepPruned() {
	reclaimer, _ := driver.As[driver.Reclaimer](h.queue)
	pruning := failing{what: "prune"}
	ticker := time.NewTicker(pruneInterval)
	defer ticker.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
			h.sweep(time.Now())
			h.answers.sweep()
			h.rates.requests.sweep()
			h.rates.enqueued.sweep()
			h.report(&pruning, h.prune(reclaimer))
		}
	}
}

// failing is a part of the upkeep, which may fail.
type failing struct {
	what   string
	since  time.Time // of its first failure; zero while it works
	logged time.Time // when a failure was logged
	text   string    // what was logged
}

// report logs a failure when it begins, when its error has become a different one, but at most each
// logInterval, and when it ends, unless Close is its cause.
func (h *Handler) report(f *failing, err error) {
	now := time.Now()
	switch {
	case h.ctx.Err() != nil:
	case err == nil && !f.since.IsZero():
		h.options.Logger.Info("errand: gateway: "+f.what+" works again", "failed_for", now.Sub(f.since))
		*f = failing{what: f.what}
	case err != nil && now.Sub(f.logged) >= logInterval && err.Error() != f.text:
		if f.since.IsZero() {
			f.since = now
		}
		h.options.Logger.Warn("errand: gateway: "+f.what+" failed, will retry", "error", err)
		f.logged, f.text = now, err.Error()
	}
}

// upkeepContext returns a context for a call that ends with the gateway.
func (h *Handler) upkeepContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(h.ctx, callTimeout)
}

// reclaimAll reclaims all jobs whose leases have expired.
func (h *Handler) reclaimAll(r driver.Reclaimer) (err error) {
	if r == nil {
		return nil
	}
	ctx, cancel := h.upkeepContext()
	defer cancel()
	for {
		jobs, failed := r.Reclaim(ctx, maxReclaim)
		err = cmp.Or(failed, err)
		h.deaths.note(jobs)
		h.ledger.Reclaimed(jobs...)
		_, isPartial := errors.AsType[*driver.PartialError](failed)
		if failed != nil && !isPartial || len(jobs) < maxReclaim {
			return err
		}
	}
}

// fire enqueues the jobs of schedules whose tick has come. It returns after how long to do so
// again.
func (h *Handler) fire(r driver.Scheduler) (again time.Duration, err error) {
	if r == nil {
		return time.Hour, nil
	}
	ctx, cancel := h.upkeepContext()
	defer cancel()
	_, next, err := r.FireSchedules(ctx)
	if driver.IsForeignTick(err) {
		h.options.Logger.Warn("errand: gateway: fired a tick of other time zone data", "error", err)
		err = nil
	}
	if err != nil || next < 0 || next > scheduleInterval {
		return scheduleInterval, err
	}
	return max(next, time.Millisecond), nil
}

// prune removes ended jobs after their retention, as many as it can in the time of one call.
func (h *Handler) prune(p driver.Reclaimer) error {
	if p == nil {
		return nil
	}
	ctx, cancel := h.upkeepContext()
	defer cancel()
	for {
		if _, more, err := p.Prune(ctx); err != nil || !more {
			return err
		}
	}
}
