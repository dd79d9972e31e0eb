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

const (
	smallAlone  = "nothing ahead"
	smallBehind = "behind 100,000 jobs of A"

	smallAhead   = 100_000
	smallRunning = 20
	smallTakes   = 10 * time.Millisecond
	smallRate    = 20 // jobs of small groups a second
	smallTime    = 15 * time.Second
)

var smallTenant = Scenario{
	Name:  "small-tenant",
	Title: "one job of a small group while a large one keeps all workers busy",
	Note: "Jobs of 10 ms, 20 at once over two processes, groups take turns. Each 50 ms one job of a group of its own is enqueued. From its " +
		"enqueue to its claim, by the database's clock.",
	Cases:   []string{smallAlone, smallBehind},
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.P50, result.P99},
	Targets: []result.Target{errandAtMost(50, result.P99, smallBehind)},
	Measure: measureSmallTenant,
}

func measureSmallTenant(ctx context.Context, h *harness.Harness, system peer.System, name string) (figures []result.Figure, err error) {
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	if err := setRule(ctx, h, queue.Rule{Running: smallRunning, Share: 1}); err != nil {
		return nil, err
	}
	if name == smallBehind {
		err := h.Postgres.Exec(ctx, fmt.Sprintf(`INSERT INTO errand.jobs (kind, payload, job_group)
			SELECT 'bench.order', jsonb_build_object('order', i, 'to', 'alice@example.com'), 'A' FROM generate_series(1, %d) AS i`, smallAhead), `ANALYZE`)
		if err != nil {
			return nil, err
		}
	}
	crew, err := h.StartWorkers(ctx, harness.Drainage{System: system, Workers: 2, Spec: child.Spec{Handler: smallTakes}})
	defer func() { crew.Kill() }()
	if err != nil {
		return nil, err
	}
	if err := crew.Begin(); err != nil {
		return nil, err
	}
	begun := time.Now()
	for i := range int(h.Duration(smallTime).Seconds() * smallRate) {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / smallRate)))
		err := h.Postgres.Exec(ctx, fmt.Sprintf(`SELECT errand.enqueue('default', 'bench.order', '{"order": 0, "to": "b"}', job_group => 'small-%d')`, i))
		if err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Second)
	for _, q := range []struct {
		metric result.Metric
		share  float64
	}{{result.P50, 0.5}, {result.P99, 0.99}, {result.Slowest, 1}} {
		n, err := h.Postgres.Number(ctx, fmt.Sprintf(`SELECT (percentile_disc(%v) WITHIN GROUP (
				ORDER BY extract(epoch FROM coalesce(started_at, clock_timestamp()) - created_at)) * 1000000)::bigint
			FROM errand.jobs WHERE job_group LIKE 'small-%%'`, q.share))
		if err != nil {
			return nil, err
		}
		figures = append(figures, result.NewFigure(q.metric, float64(n)/1000))
	}
	return figures, nil
}
