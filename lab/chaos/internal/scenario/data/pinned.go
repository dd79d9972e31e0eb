package data

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

var pinned = scenario.Scenario{
	Number: 15,
	Name:   "pinned",
	What:   "a repeatable read transaction stays open at 800 jobs/s, so that the server forgets no row that is gone",
	Alone:  true,
	Run:    pinHorizon,
}

const (
	rateOfPinned  = 800
	batchOfPinned = 7 // at most
	// pinnedEnqueuers is how many enqueuers share the rate.
	pinnedEnqueuers = 2
	// deadRowsAtOnce is how many dead rows a short run makes at once, as many as two minutes of load
	// leave in the index.
	deadRowsAtOnce = 100_000
)

func pinHorizon(ctx context.Context, h *harness.Harness) error {
	crew, err := h.Crew(4, child.Work{
		Worker: peer.Worker{Concurrency: 16},
		Least:  10 * time.Millisecond, // 64 handlers could run 2,000 jobs a second
		Most:   40 * time.Millisecond,
		Claims: true,
	})
	if err != nil {
		return err
	}
	var enqueuers []*child.Process
	for i := range pinnedEnqueuers {
		e, err := h.Enqueuer(fmt.Sprintf("e%d.1", i+1), child.Enqueue{First: i * 10_000_000, Rate: rateOfPinned / pinnedEnqueuers, Batch: batchOfPinned})
		if err != nil {
			return err
		}
		enqueuers = append(enqueuers, e)
	}
	// The start does not count as calm: connections are opened and statements planned.
	if err := h.Sleep(ctx, harness.Size(h, 10*time.Second, time.Second)); err != nil {
		return err
	}
	p := pinning{harness: h, begun: time.Now()}
	if err := h.Sleep(ctx, harness.Size(h, time.Minute, 3*time.Second)); err != nil {
		return err
	}
	if err := p.pin(ctx, harness.Size(h, 10*time.Minute, 8*time.Second)); err != nil {
		return err
	}
	if err := scenario.Stop(enqueuers[1]); err != nil {
		return err
	}
	if _, p.book, err = scenario.Finish(ctx, h, crew, enqueuers[0]); err != nil {
		return err
	}
	return p.check()
}

// pin keeps a transaction open for the time lasting, so that the server cannot remove dead rows.
func (p *pinning) pin(ctx context.Context, lasting time.Duration) error {
	holder, err := pgx.Connect(ctx, p.harness.DSN())
	if err != nil {
		return err
	}
	defer holder.Close(context.WithoutCancel(ctx))
	tx, err := holder.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return err
	}
	var n int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM errand.jobs`).Scan(&n); err != nil { // now it has a snapshot
		return err
	}
	p.pinned = time.Now()
	if p.harness.Short {
		if err := leaveDeadRows(ctx, p.harness, deadRowsAtOnce); err != nil {
			return err
		}
	}
	p.measured = time.Now()
	if err := p.harness.Sleep(ctx, lasting); err != nil {
		return err
	}
	p.over = time.Now()
	if p.age, err = ageOf(ctx, p.harness, holder.PgConn().PID()); err != nil {
		return err
	}
	return tx.Rollback(ctx)
}

// leaveDeadRows writes and deletes n jobs in one transaction. For a scan of the index their entries
// are like those of claimed jobs.
func leaveDeadRows(ctx context.Context, h *harness.Harness, n int) error {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, written := tx.Exec(ctx, `INSERT INTO errand.jobs (queue, kind, payload)
			SELECT 'default', 'chaos.gone', '{"number": -1}' FROM generate_series(1, $1::integer)`, n)
		_, deleted := tx.Exec(ctx, `DELETE FROM errand.jobs WHERE kind = 'chaos.gone'`)
		return errors.Join(written, deleted)
	})
}

// ageOf returns how many transactions old the xmin horizon of a session is.
func ageOf(ctx context.Context, h *harness.Harness, pid uint32) (age int, err error) {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT age(backend_xmin) FROM pg_stat_activity WHERE pid = $1`, pid).Scan(&age)
	return age, err
}
