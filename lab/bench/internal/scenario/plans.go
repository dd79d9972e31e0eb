package scenario

import (
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

const (
	planJobs  = 1_000_000 // as many rows does the table come to have
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
		"Generic plans: plan_cache_mode is force_generic_plan. Stale: statistics are of the empty table. Autovacuum leaves the table alone. Rows read, from the table and its indexes, tell whether the plans are the same. After 30 s the figure is of what has been done by then. " + clockNote,
	Cases:   []string{planAnalyzed, planFresh, planGeneric, planStale},
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		against(1/1.2, false, result.Throughput, planFresh, planAnalyzed),
		against(1/1.2, false, result.Throughput, planGeneric, planAnalyzed),
		against(1/1.2, false, result.Throughput, planStale, planAnalyzed),
		against(1.2, true, result.RowsRead, planFresh, planAnalyzed),
		against(1.2, true, result.RowsRead, planGeneric, planAnalyzed),
		against(1.2, true, result.RowsRead, planStale, planAnalyzed),
	},
	measure: measurePlans,
}

func measurePlans(ctx context.Context, l *Lab, system peer.System, name string) ([]result.Figure, error) {
	d := drainage{system: system, jobs: planJobs, limit: planLimit}
	d.installed = func(ctx context.Context) error {
		return l.Postgres.Exec(ctx, `ALTER TABLE errand.jobs SET (autovacuum_enabled = false)`)
	}
	switch name {
	case planFresh:
		d.spec.Rehearse = true
	case planGeneric:
		dsn, err := l.Postgres.With("plan_cache_mode", "force_generic_plan")
		if err != nil {
			return nil, err
		}
		d.spec.DSN = dsn
	}
	d.fill = func(ctx context.Context, jobs int) error { return l.fillForPlans(ctx, system, name, jobs) }
	var rows [2]int64 // read from the table before and after
	d.before = func(ctx context.Context) (func() error, error) {
		err := l.rowsRead(ctx, &rows[0])
		return func() error { return l.rowsRead(ctx, &rows[1]) }, err
	}
	out, err := l.drain(ctx, d)
	if err != nil {
		return nil, err
	}
	read := is(result.RowsRead, float64(rows[1]-rows[0])/float64(out.handled))
	return slices.Insert(out.figures, 1, read), nil
}

// fillForPlans fills the table, and leaves the planner with the statistics that
// the case has. Where the worker has rehearsed it removes those jobs.
func (l *Lab) fillForPlans(ctx context.Context, system peer.System, name string, jobs int) error {
	if err := l.Postgres.Exec(ctx, `DELETE FROM errand.jobs`); err != nil {
		return err
	}
	if name == planStale {
		if err := l.Postgres.Exec(ctx, `ANALYZE`); err != nil {
			return err
		}
	}
	if err := l.enqueue(ctx, system, jobs); err != nil {
		return err
	}
	if name == planAnalyzed || name == planGeneric {
		return l.Postgres.Exec(ctx, `ANALYZE`)
	}
	return nil
}

// rowsRead reads how many rows have been read from errand's table so far, by its
// indexes or without.
func (l *Lab) rowsRead(ctx context.Context, into *int64) (err error) {
	*into, err = l.Postgres.Number(ctx, `SELECT (t.seq_tup_read
			+ (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid))::bigint
		FROM pg_stat_user_tables t WHERE t.relid = 'errand.jobs'::regclass`)
	return err
}
