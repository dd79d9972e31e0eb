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
	headsRate = 50 // jobs a second
	headsTime = 15 * time.Second
	headsHold = 50 * time.Millisecond
)

// A head is many jobs that the worker may not run, at the head of the queue.
type head struct {
	name     string
	jobs     int
	priority int
	due      string // in SQL
}

var headCases = []head{
	{name: "nothing"},
	{name: "5,000 due", jobs: 5000, due: "now()"},
	{name: "1,000,000 due", jobs: 1_000_000, due: "now()"},
	{name: "1,000,000 due, more urgent", jobs: 1_000_000, priority: -5, due: "now()"},
	{name: "1,000,000 due, less urgent", jobs: 1_000_000, priority: 5, due: "now()"},
	{name: "1,000,000 in an hour, more urgent", jobs: 1_000_000, priority: -5, due: "now() + interval '1 hour'"},
}

var heads = Scenario{
	Name:  "heads",
	Title: "from commit to handler while jobs of a kind that no worker handles stand at the head of the queue",
	Note: "50 jobs a second for 15 s, each enqueued in a transaction that stays open for 50 ms, one listening worker with the default " +
		"settings; from the return of the commit to the call of the handler.",
	Cases:   headNames(),
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.P50, result.P99},
	Targets: headTargets(),
	Measure: measureHeads,
}

func headNames() (names []string) {
	for _, h := range headCases {
		names = append(names, h.name)
	}
	return names
}

// headTargets returns the targets. They are stricter than the project's goal of 50 ms above the
// case with nothing at the head.
func headTargets() (targets []result.Target) {
	for _, h := range headCases {
		targets = append(targets, errandAtMost(50, result.P99, h.name))
	}
	return targets
}

func measureHeads(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	for _, c := range headCases {
		if c.name == name && c.jobs > 0 {
			err := h.Postgres.Exec(ctx, fmt.Sprintf(`INSERT INTO errand.jobs (kind, priority, scheduled_at)
				SELECT 'bench.nobody', %d, %s FROM generate_series(1, %d)`, c.priority, c.due, h.Jobs(c.jobs)), `ANALYZE`)
			if err != nil {
				return nil, err
			}
		}
	}
	r, err := h.RunAlone(ctx, system, child.Spec{Part: "latency", Rate: headsRate, Hold: headsHold, Duration: h.Duration(headsTime)})
	if err != nil {
		return nil, err
	}
	return []result.Figure{
		result.NewFigure(result.P50, r.Figures["p50"]),
		result.NewFigure(result.P99, r.Figures["p99"]),
		result.NewFigure(result.Slowest, r.Figures["max"]),
	}, nil
}
