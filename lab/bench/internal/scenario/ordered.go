package scenario

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// A lineup is ordered jobs in groups.
type lineup struct {
	name         string
	jobs, groups int
	workers      int     // processes
	rate         float64 // the target, in jobs a second
}

var lineups = []lineup{
	{name: "10,000 groups of 100", jobs: 1_000_000, groups: 10_000, workers: 1, rate: 15_000},
	{name: "10,000 groups of 100, 4 processes", jobs: 1_000_000, groups: 10_000, workers: 4, rate: 15_000},
	{name: "one group of 5,000", jobs: 5_000, groups: 1, workers: 1, rate: 300},
}

var ordered = Scenario{
	Name:  "ordered",
	Title: "no-op jobs that run one at a time in each group, in order",
	Note: harness.ClockNote + " An inversion is a job that was claimed before the job before it in its group had ended, by the times " +
		"in the table.",
	Cases:   lineupNames(),
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.Throughput},
	Targets: lineupTargets(),
	Measure: measureOrdered,
}

func lineupNames() (names []string) {
	for _, l := range lineups {
		names = append(names, l.name)
	}
	return names
}

func lineupTargets() (targets []result.Target) {
	for _, l := range lineups {
		place := result.Place{Case: l.name, System: result.Baseline}
		targets = append(targets,
			result.Target{Of: place, Metric: result.Throughput, Factor: l.rate},
			result.Target{Of: place, Metric: result.Inversions, Most: true})
	}
	return targets
}

func measureOrdered(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	var l lineup
	for _, l = range lineups {
		if l.name == name {
			break
		}
	}
	out, err := h.Drain(ctx, harness.Drainage{
		System: system, Jobs: l.jobs, Workers: l.workers,
		Fill: func(ctx context.Context, jobs int) error {
			return h.Postgres.Exec(ctx, fmt.Sprintf(`INSERT INTO errand.jobs (kind, payload, priority, job_group, ordered)
				SELECT 'bench.order', jsonb_build_object('order', i, 'to', 'alice@example.com'), 2147483647, 'account-' || i %% %d, true
				FROM generate_series(0, %d) AS i`, l.groups, jobs-1), `ANALYZE`)
		},
	})
	if err != nil {
		return nil, err
	}
	inversions, err := h.Postgres.Number(ctx, `SELECT count(*) FROM (
		SELECT started_at < lag(finished_at) OVER (PARTITION BY job_group ORDER BY id) AS early FROM errand.jobs) AS j WHERE early`)
	return append(out.Figures, result.NewFigure(result.Inversions, float64(inversions))), err
}
