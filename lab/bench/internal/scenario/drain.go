package scenario

import (
	"context"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// drainJobs is how many jobs a drain has at scale 1.
const drainJobs = 100_000

var drain = Scenario{
	Name:    "drain",
	Title:   "100,000 no-op jobs, enqueued beforehand, one process",
	Note:    harness.ClockNote + " River and graphile-worker at their defaults get a twentieth of the jobs, asynq six.",
	Systems: []string{"errand", "errand-pq", "errand-delete", "floor", "river-best", "river-default", "graphile-best", "graphile-default", "asynq"},
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		atLeast(5, result.Throughput, "errand", "river-best"),
		atLeast(1.6, result.Throughput, "errand", "graphile-best"),
		atLeast(8, result.Throughput, "errand", "asynq"),
		atLeast(0.85, result.Throughput, "errand", "floor"),
		atLeast(0.8, result.Throughput, "errand-pq", "errand"),
		atLeast(1.2, result.Throughput, "errand-delete", "errand"),
		atMost(0.5, result.WAL, "errand", "river-best"),
		atMost(0.5, result.Commits, "errand", "river-best"),
		atMost(0.5, result.Commits, "errand", "river-default"),
	},
	Measure: func(ctx context.Context, h *harness.Harness, system peer.System, _ string) ([]result.Figure, error) {
		out, err := h.Drain(ctx, harness.Drainage{System: system, Jobs: drainJobs})
		return out.Figures, err
	},
}
