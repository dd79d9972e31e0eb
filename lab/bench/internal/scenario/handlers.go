package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// handlerTime is how long a handler takes.
const handlerTime = 10 * time.Millisecond

// handlerJobs are five seconds' work.
const handlerJobs = 50_000

var handlers = Scenario{
	Name:    "handler",
	Title:   "50,000 jobs of 10 ms, Concurrency 100",
	Note:    "The ideal is the same handler on 100 goroutines without a queue: less than 10,000/s, because sleeping takes longer than it is told. For errand: " + harness.ClockNote,
	Systems: []string{"errand", "ideal"},
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{atLeast(0.95, result.Throughput, "errand", "ideal")},
	Measure: func(ctx context.Context, h *harness.Harness, system peer.System, _ string) ([]result.Figure, error) {
		if system.Server != peer.None {
			out, err := h.Drain(ctx, harness.Drainage{System: system, Jobs: handlerJobs, Spec: child.Spec{Handler: handlerTime}})
			return out.Figures, err
		}
		jobs := h.Jobs(handlerJobs)
		r, u, err := h.RunMetered(ctx, system, child.Spec{Part: "ideal", Jobs: jobs, Concurrency: harness.Concurrency, Handler: handlerTime})
		if err != nil {
			return nil, err
		}
		return append([]result.Figure{result.NewFigure(result.Throughput, r.Figures["rate"])}, u.Figures(jobs)...), nil
	},
}
