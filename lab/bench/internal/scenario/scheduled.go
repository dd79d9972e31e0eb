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
	scheduledRows   = 1_000_000
	scheduledSchema = "scheduled"
	scheduledCase   = "beside 1 million"
)

var scheduled = Scenario{
	Name:  "scheduled",
	Title: "200 pending jobs beside 1,000,000 that are not yet due",
	Note: "A claim of 10 of 200 pending jobs, and a claim that finds none, in turns on a table with 1 million jobs that are due a day " +
		"later, in three priorities, and on one without: 200 claims of 10 and 100 empty ones each after a warm-up.",
	Systems: []string{"errand"},
	Chart:   []result.Metric{result.ClaimP50, result.EmptyP50},
	Targets: []result.Target{
		errandAgainst(1.2, true, result.ClaimP50, scheduledCase, emptyCase),
		errandAgainst(1.2, true, result.EmptyP50, scheduledCase, emptyCase),
	},
	Prepare: prepareScheduled,
	Measure: measureScheduled,
}

// prepareScheduled makes both tables.
func prepareScheduled(ctx context.Context, h *harness.Harness) error {
	if err := h.Fresh(ctx, peer.Named("errand")); err != nil {
		return err
	}
	if err := h.Migrate(ctx, postgres.Options{Schema: scheduledSchema}); err != nil {
		return err
	}
	return h.Postgres.Exec(ctx,
		fmt.Sprintf(`INSERT INTO scheduled.jobs (kind, priority, scheduled_at)
			SELECT 'bench.claim', i %% 3 - 1, now() + interval '1 day' + i * interval '1 ms'
			FROM generate_series(1, %d) AS i`, h.Jobs(scheduledRows)),
		`VACUUM (ANALYZE) scheduled.jobs`,
		`CHECKPOINT`)
}

func measureScheduled(ctx context.Context, h *harness.Harness, system peer.System, _ string) ([]result.Figure, error) {
	r, err := h.RunAlone(ctx, system, child.Spec{Part: "claims", Schema: scheduledSchema, Empty: true})
	if err != nil {
		return nil, err
	}
	return []result.Figure{
		{Case: scheduledCase, Metric: result.ClaimP50, Value: r.Figures["there_p50"]},
		{Case: scheduledCase, Metric: result.ClaimP99, Value: r.Figures["there_p99"]},
		{Case: scheduledCase, Metric: result.EmptyP50, Value: r.Figures["there_empty"]},
		{Case: emptyCase, Metric: result.ClaimP50, Value: r.Figures["here_p50"]},
		{Case: emptyCase, Metric: result.ClaimP99, Value: r.Figures["here_p99"]},
		{Case: emptyCase, Metric: result.EmptyP50, Value: r.Figures["here_empty"]},
	}, nil
}
