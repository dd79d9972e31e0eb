package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

const (
	cancelNotified = "a worker that listens"
	cancelHeard    = "no Listen, leases of 3 s"
	cancelLease    = 3 * time.Second
	cancelRate     = 25 // a second
)

var cancels = Scenario{
	Name:    "cancel",
	Title:   "from the call of Cancel to the end of the handler's context",
	Note:    "25 jobs a second run in one process of 100 handlers, which cancels each at a random time. Without Listen the worker learns of it with its next heartbeat, a third of its lease apart.",
	Cases:   []string{cancelNotified, cancelHeard},
	Systems: []string{"errand"},
	Rounds:  2,
	Chart:   []result.Metric{result.P50, result.P99},
	Targets: []result.Target{
		errandAtMost(50, result.P99, cancelNotified),
		errandAtMost(float64((cancelLease / 3).Milliseconds()), result.P99, cancelHeard),
	},
	Measure: measureCancel,
}

func measureCancel(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	jobs := int(h.Duration(20*time.Second).Seconds() * cancelRate)
	r, _, err := h.RunMetered(ctx, system, child.Spec{
		Part: "cancel", Jobs: jobs, Rate: cancelRate, Lease: cancelLease, Listens: name == cancelNotified,
	})
	if err != nil {
		return nil, err
	}
	return []result.Figure{
		result.NewFigure(result.P50, r.Figures["p50"]),
		result.NewFigure(result.P99, r.Figures["p99"]),
		result.NewFigure(result.Slowest, r.Figures["max"]),
	}, nil
}
