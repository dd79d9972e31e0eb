package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/queue"
)

// A confine is jobs of a queue with a rule.
type confine struct {
	name         string
	jobs, groups int
	rule         queue.Rule
	ahead        int // jobs that are due before, of a group that is full
	workers      int // processes
	takes        time.Duration
	isPinned     bool // a transaction keeps the server from forgetting dead rows
}

const (
	noRule     = "10,000 groups, no rule"
	turnsAlone = "10,000 groups in turns"
	turnsPin   = "10,000 groups in turns, pinned"
	fewSlots   = "40 at once, 50 ms, 4 processes"
	twoEach    = "10,000 groups, 2 at once each"
	behindFull = "10,000 groups, 2 at once each, behind 1,000,000 of a full group"
)

var confines = []confine{
	{name: noRule, jobs: 1_000_000, groups: 10_000, workers: 1},
	{name: turnsAlone, jobs: 1_000_000, groups: 10_000, rule: queue.Rule{Share: 1}, workers: 1},
	{name: turnsPin, jobs: 1_000_000, groups: 10_000, rule: queue.Rule{Share: 1}, workers: 1, isPinned: true},
	{name: fewSlots, jobs: 24_000, groups: 1, rule: queue.Rule{Running: 40}, workers: 4, takes: 50 * time.Millisecond},
	{name: twoEach, jobs: 100_000, groups: 10_000, rule: queue.Rule{PerGroup: 2}, workers: 1},
	{name: behindFull, jobs: 100_000, groups: 10_000, rule: queue.Rule{PerGroup: 2}, ahead: 1_000_000, workers: 1},
}

var limits = Scenario{
	Name:    "limits",
	Title:   "jobs of a queue with a rule",
	Note:    harness.ClockNote + " Pinned means that a repeatable read transaction, begun beforehand, is open all the while. The ideal of 40 at once is 800 jobs/s.",
	Cases:   confineNames(),
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		errandAgainst(0.5, false, result.Throughput, turnsAlone, noRule),
		errandAgainst(0.5, false, result.Throughput, turnsPin, turnsAlone),
		{Of: result.Place{Case: fewSlots, System: result.Baseline}, Metric: result.Throughput, Factor: 0.97 * 800},
		errandAgainst(0.9, false, result.Throughput, behindFull, twoEach),
		errandAtMost(2, result.ClaimP99, behindFull),
	},
	Measure: measureConfine,
}

func confineNames() (names []string) {
	for _, c := range confines {
		names = append(names, c.name)
	}
	return names
}

func measureConfine(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	var c confine
	for _, c = range confines {
		if c.name == name {
			break
		}
	}
	ahead := 0
	if c.ahead > 0 {
		ahead = h.Jobs(c.ahead)
	}
	d := harness.Drainage{
		System: system, Jobs: c.jobs, Left: ahead, Workers: c.workers, Spec: child.Spec{Handler: c.takes, TimeClaims: c.workers == 1},
		Fill: func(ctx context.Context, jobs int) error {
			if err := setRule(ctx, h, c.rule); err != nil {
				return err
			}
			if err := fillGroup(ctx, h, ahead, c.rule.PerGroup); err != nil {
				return err
			}
			return h.Postgres.Exec(ctx, fmt.Sprintf(`INSERT INTO errand.jobs (kind, payload, job_group)
				SELECT 'bench.order', jsonb_build_object('order', i, 'to', 'alice@example.com'), 'tenant-' || i %% %d
				FROM generate_series(0, %d) AS i`, c.groups, jobs-1), `ANALYZE`)
		},
	}
	if c.isPinned {
		d.Before = h.Postgres.Pin
	}
	out, err := h.Drain(ctx, d)
	return out.Figures, err
}

// fillGroup makes jobs of a group of which as many run as may. Those belong to a worker that does
// not end.
func fillGroup(ctx context.Context, h *harness.Harness, jobs, running int) error {
	return h.Postgres.Exec(ctx, fmt.Sprintf(`INSERT INTO errand.jobs
			(kind, job_group, scheduled_at, status, limited, fence, attempts, locked_by, locked_at, locked_until)
		SELECT
			'bench.order', 'full', now() - interval '1 hour', (CASE WHEN i <= %[2]d THEN 'running' ELSE 'pending' END)::errand.job_status,
			CASE WHEN i <= %[2]d THEN true END, 0, 0, CASE WHEN i <= %[2]d THEN 'another' END,
			CASE WHEN i <= %[2]d THEN now() END, CASE WHEN i <= %[2]d THEN now() + interval '1 day' END
		FROM generate_series(1, %[1]d) AS i`, jobs, running))
}
