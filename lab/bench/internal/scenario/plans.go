package scenario

import (
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

const (
	planJobs  = 1_000_000 // as many rows as the table gets
	planLimit = 30 * time.Second
)

const (
	planAnalyzed = "analyzed"
	planFresh    = "never analyzed"
	planGeneric  = "generic plans"
	planStale    = "stale statistics"
)

var plans = Scenario{
	Name:  "plans",
	Title: "1,000,000 no-op jobs, whatever the planner knows",
	Note: "Analyzed: statistics are of the full table. Never analyzed: the worker has prepared its statements on the empty table, which then fills. " +
		"Generic plans: plan_cache_mode is force_generic_plan. Stale: statistics are of the empty table. Autovacuum leaves the table alone. Rows read, from the table and its indexes, tell whether the plans are the same. After 30 s the figure is of what has been done by then. " + harness.ClockNote,
	Cases:   []string{planAnalyzed, planFresh, planGeneric, planStale},
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		errandAgainst(1/1.2, false, result.Throughput, planFresh, planAnalyzed),
		errandAgainst(1/1.2, false, result.Throughput, planGeneric, planAnalyzed),
		errandAgainst(1/1.2, false, result.Throughput, planStale, planAnalyzed),
		errandAgainst(1.2, true, result.RowsRead, planFresh, planAnalyzed),
		errandAgainst(1.2, true, result.RowsRead, planGeneric, planAnalyzed),
		errandAgainst(1.2, true, result.RowsRead, planStale, planAnalyzed),
	},
	Measure: measurePlans,
}

func measurePlans(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	d := harness.Drainage{System: system, Jobs: planJobs, Limit: planLimit}
	d.Installed = func(ctx context.Context) error {
		return h.Postgres.Exec(ctx, `ALTER TABLE errand.jobs SET (autovacuum_enabled = false)`)
	}
	switch name {
	case planFresh:
		d.Spec.Rehearse = true
	case planGeneric:
		dsn, err := h.Postgres.With("plan_cache_mode", "force_generic_plan")
		if err != nil {
			return nil, err
		}
		d.Spec.DSN = dsn
	}
	d.Fill = func(ctx context.Context, jobs int) error { return fillForPlans(ctx, h, system, name, jobs) }
	var rows [2]int64 // rows read, before and after
	d.Before = func(ctx context.Context) (func() error, error) {
		err := rowsRead(ctx, h, &rows[0])
		return func() error { return rowsRead(ctx, h, &rows[1]) }, err
	}
	out, err := h.Drain(ctx, d)
	if err != nil {
		return nil, err
	}
	read := result.NewFigure(result.RowsRead, float64(rows[1]-rows[0])/float64(out.Handled))
	return slices.Insert(out.Figures, 1, read), nil
}

// fillForPlans fills the table, and gathers the statistics that belong to the case. It first
// removes the jobs of the worker's rehearsal.
func fillForPlans(ctx context.Context, h *harness.Harness, system peer.System, name string, jobs int) error {
	if err := h.Postgres.Exec(ctx, `DELETE FROM errand.jobs`); err != nil {
		return err
	}
	if name == planStale {
		if err := h.Postgres.Exec(ctx, `ANALYZE`); err != nil {
			return err
		}
	}
	if err := h.Enqueue(ctx, system, jobs); err != nil {
		return err
	}
	if name == planAnalyzed || name == planGeneric {
		return h.Postgres.Exec(ctx, `ANALYZE`)
	}
	return nil
}

// rowsRead reads how many rows have been read from errand's table so far, with an index or without.
func rowsRead(ctx context.Context, h *harness.Harness, into *int64) (err error) {
	*into, err = h.Postgres.Number(ctx, `SELECT (t.seq_tup_read
			+ (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid))::bigint
		FROM pg_stat_user_tables t WHERE t.relid = 'errand.jobs'::regclass`)
	return err
}
