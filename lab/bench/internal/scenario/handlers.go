package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
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
	Note:    "The ideal is the same handler on 100 goroutines without a queue: less than 10,000/s, because sleeping takes longer than it is told. For errand: " + clockNote,
	Systems: []string{"errand", "ideal"},
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{atLeast(0.95, result.Throughput, "errand", "ideal")},
	measure: func(ctx context.Context, l *Lab, system peer.System, _ string) ([]result.Figure, error) {
		if system.Server != peer.None {
			out, err := l.drain(ctx, drainage{system: system, jobs: handlerJobs, spec: child.Spec{Handler: handlerTime}})
			return out.figures, err
		}
		jobs := l.jobs(handlerJobs)
		r, u, err := l.metered(ctx, system, child.Spec{Part: "ideal", Jobs: jobs, Concurrency: concurrency, Handler: handlerTime})
		if err != nil {
			return nil, err
		}
		return append([]result.Figure{is(result.Throughput, r.Figures["rate"])}, u.figures(jobs)...), nil
	},
}
