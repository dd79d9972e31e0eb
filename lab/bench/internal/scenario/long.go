package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/bench/internal/child"
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
		against(1.1, true, result.ClaimP50, longCase, emptyCase),
		within(100, result.DequeueSize, longCase),
	},
	prepare: prepareLong,
	measure: measureLong,
}

// prepareLong makes both tables. The rows of the long one are as those of jobs that were
// enqueued and completed.
func prepareLong(ctx context.Context, l *Lab) error {
	errand := peer.Named("errand")
	if err := l.fresh(ctx, errand); err != nil {
		return err
	}
	if err := l.fillLong(ctx, l.jobs(longRows)); err != nil {
		return err
	}
	size, err := l.Postgres.Number(ctx, `SELECT pg_relation_size('long.jobs_pending_idx')`)
	l.dequeueIndex = float64(size) / 1000
	return err
}

func (l *Lab) fillLong(ctx context.Context, rows int) error {
	if err := l.migrate(ctx, postgres.Options{Schema: longSchema}); err != nil {
		return err
	}
	return l.Postgres.Exec(ctx,
		fmt.Sprintf(`INSERT INTO long.jobs (kind, payload, status, attempts, locked_by, fence)
			SELECT 'bench.claim', jsonb_build_object('order', i), 'completed', 1, 'worker', i
			FROM generate_series(1, %d) AS i`, rows),
		`INSERT INTO long.jobs (kind) SELECT 'bench.claim' FROM generate_series(1, 200)`,
		`INSERT INTO errand.jobs (kind) SELECT 'bench.claim' FROM generate_series(1, 200)`,
		`VACUUM (ANALYZE) long.jobs`,
		`CHECKPOINT`)
}

func measureLong(ctx context.Context, l *Lab, system peer.System, _ string) ([]result.Figure, error) {
	r, err := l.alone(ctx, system, child.Spec{Part: "claims", Schema: longSchema})
	if err != nil {
		return nil, err
	}
	return []result.Figure{
		{Case: longCase, Metric: result.ClaimP50, Value: r.Figures["there_p50"]},
		{Case: longCase, Metric: result.ClaimP99, Value: r.Figures["there_p99"]},
		{Case: longCase, Metric: result.DequeueSize, Value: l.dequeueIndex},
		{Case: emptyCase, Metric: result.ClaimP50, Value: r.Figures["here_p50"]},
		{Case: emptyCase, Metric: result.ClaimP99, Value: r.Figures["here_p99"]},
	}, nil
}

func (l *Lab) migrate(ctx context.Context, o postgres.Options) error {
	db, err := sql.Open("pgx", l.Postgres.OwnDSN)
	if err != nil {
		return err
	}
	return errors.Join(postgres.Migrate(ctx, db, o), db.Close())
}
