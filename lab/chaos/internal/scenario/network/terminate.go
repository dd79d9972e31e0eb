package network

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var terminate = scenario.Scenario{
	Number: 9,
	Name:   "terminate",
	What:   "all connections are ended with pg_terminate_backend, each second",
	Peers:  true,
	Alone:  true,
	Run:    terminateConnections,
}

func terminateConnections(ctx context.Context, h *harness.Harness) error {
	const lease, settled, share = 3 * time.Second, 5 * time.Second, 0.8
	crew, enqueuer, err := scenario.Load(h, lease)
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	calm := time.Now()
	if err := h.Sleep(ctx, harness.Size(h, 20*time.Second, 3*time.Second)); err != nil {
		return err
	}
	first := time.Now()
	for range harness.Size(h, 300, 5) {
		if err := h.Terminate(ctx); err != nil {
			return err
		}
		if err := h.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	last := time.Now().Add(-time.Second)
	if err := h.Sleep(ctx, settled-time.Second); err != nil {
		return err
	}
	after := time.Now()
	if err := h.Sleep(ctx, harness.Size(h, 20*time.Second, 3*time.Second)); err != nil {
		return err
	}
	end := time.Now()
	f, book, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	before, during, then := audit.Rate(book.Effects, calm, first), audit.Rate(book.Effects, first, last), audit.Rate(book.Effects, after, end)
	h.Row.CheckTime(then >= share*before, "≥ 80 % of the rate 5 s after", "%.0f jobs/s before, %.0f from 5 s after on", before, then)
	h.Row.Note("leases of %v; %.0f jobs/s while it lasted", lease, during)
	return nil
}
