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
	name           string
	jobs, groups   int
	running, share int // the rule; both 0 for none
	workers        int // processes
	takes          time.Duration
	isPinned       bool // a transaction keeps the server from forgetting dead rows
}

const (
	noRule     = "10,000 groups, no rule"
	turnsAlone = "10,000 groups in turns"
	turnsPin   = "10,000 groups in turns, pinned"
	fewSlots   = "40 at once, 50 ms, 4 processes"
)

var confines = []confine{
	{name: noRule, jobs: 1_000_000, groups: 10_000, workers: 1},
	{name: turnsAlone, jobs: 1_000_000, groups: 10_000, share: 1, workers: 1},
	{name: turnsPin, jobs: 1_000_000, groups: 10_000, share: 1, workers: 1, isPinned: true},
	{name: fewSlots, jobs: 24_000, groups: 1, running: 40, workers: 4, takes: 50 * time.Millisecond},
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
	d := harness.Drainage{
		System: system, Jobs: c.jobs, Workers: c.workers, Spec: child.Spec{Handler: c.takes, TimeClaims: c.workers == 1},
		Fill: func(ctx context.Context, jobs int) error {
			if err := setRule(ctx, h, queue.Rule{Running: c.running, Share: c.share}); err != nil {
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
