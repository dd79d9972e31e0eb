package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// latencyTime is how long jobs are enqueued.
const latencyTime = 10 * time.Second

var latencies = Scenario{
	Name:    "latency",
	Title:   "from commit to handler, at 10, 300 and 2,000 jobs a second, default settings",
	Note:    "One process enqueues, one job a call, and works, for 10 s after a warm-up; from the return of the enqueueing call to the call of the handler. errand's Concurrency is 10, its default; River's MaxWorkers 100, of which it fetches for one queue ten times a second, so that 2,000/s are more than it can do.",
	Cases:   []string{"10/s", "300/s", "2000/s"},
	Systems: []string{"errand", "river-default", "asynq"},
	Rounds:  2,
	Chart:   []result.Metric{result.P50, result.P99},
	Targets: []result.Target{
		errandAtMost(2, result.P50, "300/s"),
		errandAtMost(10, result.P99, "300/s"),
		errandAtMost(6, result.P50, "2000/s"),
		errandAtMost(20, result.P99, "2000/s"),
	},
	Measure: measureLatency,
}

func measureLatency(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	var rate int
	if _, err := fmt.Sscanf(name, "%d/s", &rate); err != nil {
		return nil, err
	}
	return measureWakeUp(ctx, h, system, rate, latencyTime)
}

// measureWakeUp measures how long jobs take to their handlers at a rate, for a while.
func measureWakeUp(ctx context.Context, h *harness.Harness, system peer.System, rate int, lasts time.Duration) ([]result.Figure, error) {
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	spec := child.Spec{Part: "latency", Rate: rate, Duration: h.Duration(lasts)}
	r, u, err := h.RunMetered(ctx, system, spec)
	if err != nil {
		return nil, err
	}
	err = h.With(ctx, system, func(p peer.Peer) error {
		return harness.Verify(ctx, p, system, 0, int(r.Handled))
	})
	return append([]result.Figure{
		result.NewFigure(result.P50, r.Figures["p50"]),
		result.NewFigure(result.P99, r.Figures["p99"]),
		result.NewFigure(result.Slowest, r.Figures["max"]),
	}, u.Figures(int(r.Handled))...), err
}
