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

const (
	// singlesTime is how long jobs are enqueued, one at a time.
	singlesTime = 2 * time.Second
	// backlog is how many jobs busy workers have. They last longer than the measurement.
	backlog = 20_000
	// fallAsleep is how long idle workers get to fall asleep.
	fallAsleep = 500 * time.Millisecond
)

var singles = Scenario{
	Name:    "singles",
	Title:   "enqueue one job at a time for 2 s, from 1, 16 and 64 goroutines",
	Note:    "A call and a transaction each. Idle: a worker process with nothing else to do, asleep at first, takes the jobs as they come. Busy: it works off a backlog, in which a job takes 10 ms. errand's worker has Concurrency 10, its default; River's MaxWorkers 100; the floor has no worker, and wakes none. Each job is checked to be there.",
	Cases:   singlesCases(),
	Systems: []string{"errand", "floor", "river-default", "asynq"},
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		forCase("1 idle", atLeast(2, result.Throughput, "errand", "river-default")),
		forCase("1 busy", atLeast(2, result.Throughput, "errand", "river-default")),
		forCase("16 idle", atLeast(3.5, result.Throughput, "errand", "river-default")),
		forCase("16 busy", atLeast(3.5, result.Throughput, "errand", "river-default")),
		forCase("64 idle", atLeast(3.5, result.Throughput, "errand", "river-default")),
		forCase("64 busy", atLeast(3.5, result.Throughput, "errand", "river-default")),
	},
	Measure: measureSingles,
}

func singlesCases() []string {
	var cases []string
	for _, n := range []int{1, 16, 64} {
		cases = append(cases, fmt.Sprint(n, " idle"), fmt.Sprint(n, " busy"))
	}
	return cases
}

func measureSingles(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	var goroutines int
	var state string
	if _, err := fmt.Sscan(name, &goroutines, &state); err != nil {
		return nil, err
	}
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	spec := child.Spec{Part: "work"}
	waiting := 0
	if state == "busy" {
		spec.Handler = handlerTime
		waiting = h.Jobs(backlog)
	}
	if err := h.Load(ctx, system, waiting); err != nil {
		return nil, err
	}
	var workers harness.Crew
	if system.Family != "floor" {
		worker, err := h.Start(ctx, system, spec)
		if err != nil {
			return nil, err
		}
		workers = harness.Crew{worker}
	}
	defer workers.Kill()
	if err := workers.Begin(); err != nil {
		return nil, err
	}
	time.Sleep(fallAsleep)
	r, err := h.RunAlone(ctx, system, child.Spec{Part: "singles", Goroutines: goroutines, Duration: h.Duration(singlesTime)})
	if err != nil {
		return nil, err
	}
	if _, err := workers.Stop(); err != nil {
		return nil, err
	}
	jobs := int(r.Figures["jobs"])
	if err := h.VerifyAll(ctx, system, waiting+goroutines*child.WarmUp+jobs); err != nil {
		return nil, err
	}
	return []result.Figure{
		result.NewFigure(result.Throughput, r.Figures["rate"]),
		result.NewFigure(result.P50, r.Figures["p50"]),
		result.NewFigure(result.P99, r.Figures["p99"]),
		result.NewFigure(result.PeakRSS, float64(r.PeakRSS)/(1<<20)),
		result.NewFigure(result.CPU, r.CPU*1e6/float64(jobs)),
	}, nil
}

// measureCalls measures how fast jobs are enqueued one a call, without a worker.
func measureCalls(ctx context.Context, h *harness.Harness, system peer.System, goroutines int) ([]result.Figure, error) {
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	r, u, err := h.RunMetered(ctx, system, child.Spec{Part: "singles", Goroutines: goroutines, Duration: h.Duration(singlesTime)})
	if err != nil {
		return nil, err
	}
	jobs := int(r.Figures["jobs"])
	err = h.VerifyAll(ctx, system, goroutines*child.WarmUp+jobs)
	return append([]result.Figure{
		result.NewFigure(result.Throughput, r.Figures["rate"]),
		result.NewFigure(result.P50, r.Figures["p50"]),
		result.NewFigure(result.P99, r.Figures["p99"]),
	}, u.Figures(jobs)...), err
}
