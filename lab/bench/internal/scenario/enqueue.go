package scenario

import (
	"context"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// enqueueJobs is how many jobs are enqueued at scale 1.
const enqueueJobs = 100_000

var enqueues = Scenario{
	Name:    "enqueue",
	Title:   "100,000 jobs enqueued in batches of 5,000, one goroutine, no worker",
	Note:    "After a warm-up of 10 jobs. errand: Enqueue; River: InsertManyFast, which is COPY; graphile-worker: add_jobs; floor: INSERT … SELECT FROM unnest. Each job is checked to be there.",
	Systems: []string{"errand", "errand-pq", "floor", "river-default", "graphile-default"},
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		atLeast(1.8, result.Throughput, "errand", "river-default"),
		atLeast(0.85, result.Throughput, "errand", "floor"),
		atMost(0.5, result.WAL, "errand", "river-default"),
	},
	Measure: measureEnqueue,
}

func measureEnqueue(ctx context.Context, h *harness.Harness, system peer.System, _ string) ([]result.Figure, error) {
	return measureBatches(ctx, h, system, enqueueJobs)
}

// measureBatches measures how fast so many jobs are enqueued, at scale 1.
func measureBatches(ctx context.Context, h *harness.Harness, system peer.System, jobs int) ([]result.Figure, error) {
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	jobs = h.Jobs(jobs)
	r, u, err := h.RunMetered(ctx, system, child.Spec{Part: "enqueue", Jobs: jobs, Batch: harness.Batch})
	if err != nil {
		return nil, err
	}
	err = h.With(ctx, system, func(p peer.Peer) error {
		return harness.Verify(ctx, p, system, jobs+child.WarmUp, 0)
	})
	return append([]result.Figure{result.NewFigure(result.Throughput, r.Figures["rate"])}, u.Figures(jobs)...), err
}
