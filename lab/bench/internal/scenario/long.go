package scenario

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

const (
	longRows   = 10_000_000
	longSchema = "long"
	longCase   = "beside 10 million"
	emptyCase  = "empty table"
)

var long = Scenario{
	Name:    "long",
	Title:   "200 pending jobs beside 10 million completed ones",
	Note:    "A claim of 10 of 200 pending jobs, in turns on a table with 10 million completed rows and on one without, 200 claims each after a warm-up of 20. The index is measured when 200 jobs have been enqueued.",
	Systems: []string{"errand"},
	Chart:   []result.Metric{result.ClaimP50},
	Targets: []result.Target{
		errandAgainst(1.1, true, result.ClaimP50, longCase, emptyCase),
		errandAtMost(100, result.DequeueSize, longCase),
	},
	Prepare: prepareLong,
	Measure: measureLong,
}

// prepareLong makes both tables. The rows of the long one look like those of jobs that were
// enqueued and completed.
func prepareLong(ctx context.Context, h *harness.Harness) error {
	errand := peer.Named("errand")
	if err := h.Fresh(ctx, errand); err != nil {
		return err
	}
	if err := fillLong(ctx, h, h.Jobs(longRows)); err != nil {
		return err
	}
	size, err := h.Postgres.Number(ctx, `SELECT pg_relation_size('long.jobs_pending_idx')`)
	h.PendingIndexKB = float64(size) / 1000
	return err
}

func fillLong(ctx context.Context, h *harness.Harness, rows int) error {
	if err := h.Migrate(ctx, postgres.Options{Schema: longSchema}); err != nil {
		return err
	}
	return h.Postgres.Exec(ctx,
		fmt.Sprintf(`INSERT INTO long.jobs (kind, payload, status, attempts, locked_by, fence)
			SELECT 'bench.claim', jsonb_build_object('order', i), 'completed', 1, 'worker', i
			FROM generate_series(1, %d) AS i`, rows),
		`INSERT INTO long.jobs (kind) SELECT 'bench.claim' FROM generate_series(1, 200)`,
		`INSERT INTO errand.jobs (kind) SELECT 'bench.claim' FROM generate_series(1, 200)`,
		`VACUUM (ANALYZE) long.jobs`,
		`CHECKPOINT`)
}

func measureLong(ctx context.Context, h *harness.Harness, system peer.System, _ string) ([]result.Figure, error) {
	r, err := h.RunAlone(ctx, system, child.Spec{Part: "claims", Schema: longSchema})
	if err != nil {
		return nil, err
	}
	return []result.Figure{
		{Case: longCase, Metric: result.ClaimP50, Value: r.Figures["there_p50"]},
		{Case: longCase, Metric: result.ClaimP99, Value: r.Figures["there_p99"]},
		{Case: longCase, Metric: result.DequeueSize, Value: h.PendingIndexKB},
		{Case: emptyCase, Metric: result.ClaimP50, Value: r.Figures["here_p50"]},
		{Case: emptyCase, Metric: result.ClaimP99, Value: r.Figures["here_p99"]},
	}, nil
}
