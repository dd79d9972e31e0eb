package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

const (
	// aloneDatabase is where one worker with a connection of its own idles, for comparison.
	aloneDatabase = "alone"
	// waitPath is where a worker waits that has nothing to do.
	waitPath = "/v1/wait"
	// idleMost is the most transactions a second while all workers wait. Each of 1,000 would poll once
	// in five seconds, which is 200 a second together, and report itself once in ten: 100 more.
	idleMost = 30
	// countedLate is how long after a transaction its session, now idle, tells the server of it
	// (PGSTAT_IDLE_INTERVAL in PostgreSQL's pgstat.c). Before that the server has not yet counted what
	// the start of the workers took.
	countedLate = 10 * time.Second
)

// checkIdle demands that workers that wait on the gateways cost the database little more than a few
// workers that are connected to it.
func (f *fleet) checkIdle(ctx context.Context) error {
	alone, err := f.startAlone(ctx)
	if err != nil {
		return err
	}
	if err := f.h.WaitUntil(ctx, time.Minute, func() (bool, error) { return f.waiting() == f.workers, nil }); err != nil {
		return fmt.Errorf("%d workers wait, not %d: %w", f.waiting(), f.workers, err)
	}
	if err := f.h.Sleep(ctx, countedLate); err != nil {
		return err
	}
	begun := time.Now()
	before, err := commits(ctx, f.h)
	if err != nil {
		return err
	}
	if err := f.h.Sleep(ctx, harness.Size(f.h, time.Minute, 5*time.Second)); err != nil {
		return err
	}
	after, err := commits(ctx, f.h)
	if err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	rate := func(database string) float64 { return float64(after[database]-before[database]) / took }
	f.h.Row.Check(rate(harness.Database) <= idleMost,
		fmt.Sprintf("transactions a second while %d workers wait on 2 gateways and report themselves: at most %d", f.workers, idleMost),
		"%.1f; of one worker that is connected to the database: %.1f", rate(harness.Database), rate(aloneDatabase))
	return scenario.Stop(alone)
}

// startAlone starts a worker on a database of its own.
func (f *fleet) startAlone(ctx context.Context) (*child.Process, error) {
	if err := f.h.Server.Create(ctx, aloneDatabase); err != nil {
		return nil, err
	}
	dsn := f.h.Server.URL(aloneDatabase)
	p, err := peer.Open(ctx, peer.Default, dsn, 1)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.Install(ctx), p.Close()); err != nil {
		return nil, err
	}
	return f.h.Start(child.Spec{Part: "work", Name: aloneDatabase, DSN: dsn, Work: child.Work{Worker: peer.Worker{Concurrency: 1, Lease: remoteLease}}})
}

// waiting returns how many workers wait on the gateways.
func (f *fleet) waiting() (n int) {
	for _, s := range f.sites {
		n += s.proxy.Waiting(waitPath)
	}
	return n
}

// commits returns how many transactions there have been in each database. A statement without a
// transaction is one.
func commits(ctx context.Context, h *harness.Harness) (map[string]int, error) {
	conn, err := pgx.Connect(ctx, h.Server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `SELECT datname, xact_commit + xact_rollback FROM pg_stat_database WHERE datname IS NOT NULL`) // ForEachRow returns the error, too
	counts := make(map[string]int)
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		counts[name] = n
		return nil
	})
	return counts, err
}
