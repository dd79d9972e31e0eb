package scenario

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/queue"
)

// A faucet is jobs that a rate lets start.
type faucet struct {
	name        string
	rate, burst int  // of the queue, or of each group
	groups      int  // 0 means that the rate is the queue's
	isWhole     bool // the burst is long enough that no token should be lost
}

// rateSeconds is how long the rate is measured. It begins a second after the first job.
const rateSeconds = 60

var faucets = []faucet{
	{name: "500/s", rate: 500, burst: 50, isWhole: true},
	{name: "500/s, burst 5", rate: 500, burst: 5},
	{name: "50 groups of 10/s", rate: 10, burst: 2, groups: 50},
}

var rates = Scenario{
	Name:  "rates",
	Title: "no-op jobs at a rate, worked off by 8 processes",
	Note: "jobs/s is over a minute, which begins a second after the first job, by the times in the table at which jobs were " +
		"claimed. The largest burst is, of all windows of time, how many jobs were claimed in one beyond the rate times its length, " +
		"of the queue or of the group with the most. The rates have a burst of 50, of 5, and of 2 for each group.",
	Cases:   faucetNames(),
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.Throughput},
	Targets: faucetTargets(),
	Measure: measureRate,
}

func faucetNames() (names []string) {
	for _, f := range faucets {
		names = append(names, f.name)
	}
	return names
}

func faucetTargets() (targets []result.Target) {
	for _, f := range faucets {
		place := result.Place{Case: f.name, System: result.Baseline}
		all := float64(f.rate * max(f.groups, 1))
		if f.isWhole {
			targets = append(targets, result.Target{Of: place, Metric: result.Throughput, Factor: 0.99 * all})
		}
		targets = append(targets,
			result.Target{Of: place, Metric: result.Throughput, Factor: 1.01 * all, Most: true},
			result.Target{Of: place, Metric: result.LargestBurst, Factor: float64(f.burst), Most: true})
	}
	return targets
}

func measureRate(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	var f faucet
	for _, f = range faucets {
		if f.name == name {
			break
		}
	}
	rate := queue.Rate{Jobs: f.rate, Burst: f.burst}
	groups, rule, group := max(f.groups, 1), queue.Rule{Rate: rate}, "NULL"
	if f.groups > 0 {
		rule, group = queue.Rule{GroupRate: rate}, fmt.Sprintf("'tenant-' || i %% %d", groups)
	}
	out, err := h.Drain(ctx, harness.Drainage{
		System: system, Jobs: (f.rate*(rateSeconds+2) + f.burst) * groups, Workers: 8,
		Fill: func(ctx context.Context, jobs int) error {
			if err := setRule(ctx, h, rule); err != nil {
				return err
			}
			return h.Postgres.Exec(ctx,
				fmt.Sprintf(`INSERT INTO errand.jobs (kind, payload, job_group)
					SELECT 'bench.order', jsonb_build_object('order', i, 'to', 'alice@example.com'), %s
					FROM generate_series(0, %d) AS i`, group, jobs-1), `ANALYZE`)
		},
	})
	if err != nil {
		return nil, err
	}
	started, err := h.Postgres.Number(ctx, fmt.Sprintf(`SELECT count(*) FROM errand.jobs, (SELECT min(started_at) AS first FROM errand.jobs) AS f
		WHERE started_at >= f.first + interval '1 second' AND started_at < f.first + interval '%d seconds'`, rateSeconds+1))
	if err != nil {
		return nil, err
	}
	// x grows with each job and falls with the rate, so a window's burst is the difference between its
	// ends, and one more.
	burst, err := h.Postgres.Number(ctx, fmt.Sprintf(`SELECT ceil(max(x - lowest) + 0.999)::bigint
		FROM (
			SELECT job_group, x, min(x) OVER (PARTITION BY job_group ORDER BY started_at, id) AS lowest
			FROM (
				SELECT id, job_group, started_at, row_number() OVER (PARTITION BY job_group ORDER BY started_at, id)
					- %d * extract(epoch FROM started_at - min(started_at) OVER ()) AS x
				FROM errand.jobs
			) AS numbered
		) AS windows`, f.rate))
	if err != nil {
		return nil, err
	}
	figures := []result.Figure{
		result.NewFigure(result.Throughput, float64(started)/rateSeconds), result.NewFigure(result.LargestBurst, float64(burst)),
	}
	return append(figures, out.Figures[1:]...), nil // the first is the throughput from the beginning to the end
}
