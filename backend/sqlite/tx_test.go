package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// TestTxKeepsLeases: ten handlers at once with middleware.Tx, each of which holds the write lock
// for a fifth of the lease, take turns, and the worker extends their leases in between: none is
// lost, and no job runs twice.
func TestTxKeepsLeases(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		t.Parallel()
		const count, work = 20, 300 * time.Millisecond
		db, q := fresh(t, driver, sqlite.Options{})
		execute(t, db, `CREATE TABLE effects (job INTEGER NOT NULL)`)
		enqueue(t, q, jobs(count)...)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var runs, cut, ended atomic.Int64
		mux := queue.NewMux()
		queue.NewKind[any]("test").Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, _ any) error {
			runs.Add(1)
			_, err := tx.ExecContext(ctx, `INSERT INTO effects (job) VALUES (?1)`, job.ID)
			select {
			case <-time.After(work):
			case <-ctx.Done():
				cut.Add(1)
				return context.Cause(ctx)
			}
			return err
		}))
		counting := func(next queue.Handler) queue.Handler {
			return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
				err := next.HandleJob(ctx, job)
				if !errors.Is(err, queue.ErrSettled) {
					t.Errorf("job %d: %v", job.ID, err)
				}
				if ended.Add(1) == count {
					stop()
				}
				return err
			})
		}
		err := engine.Worker{
			Backend: q, Handler: queue.Chain(mux, counting, middleware.Tx(db, q, middleware.TxOptions{})),
			Lease: 5 * work, Logger: slog.New(slog.DiscardHandler),
		}.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		if runs.Load() != count || cut.Load() != 0 {
			t.Errorf("handlers ran %d times, %d were cut short; want %d and 0", runs.Load(), cut.Load(), count)
		}
		const once = `SELECT count(*) FROM effects JOIN errand_jobs ON id = job WHERE status = 'completed' AND attempts = 1`
		if got := value[int](t, db, once); got != count {
			t.Errorf("%d jobs completed at their first attempt with an effect, want %d", got, count)
		}
	})
}

// TestTxLeavesRoom: beside handlers with middleware.Tx that never pause, other processes migrate,
// enqueue, and have transactions of their own that enqueue, which wait with SQLite's own patience.
func TestTxLeavesRoom(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path, q, _ := shop(t, driver)
		db := open(t, driver, sqlite.DSN(path))
		enqueue(t, q, jobs(200)...)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		started := make(chan struct{}, 1000)
		handler := middleware.Tx(db, q, middleware.TxOptions{})(queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			started <- struct{}{}
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
			}
			return nil
		}))
		ended := make(chan error, 1)
		go func() {
			ended <- engine.Worker{Backend: q, Handler: handler, Grace: time.Millisecond, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
		}()
		<-started
		for role, want := range map[string]string{"seller": "sold", "migrator": "migrated"} {
			begun := time.Now()
			p := start(t, role, driver, path)
			for said := ""; said != want; {
				said = <-p.said
			}
			if took := time.Since(begun); took > 25*time.Second {
				t.Errorf("a %s took %v, want a few seconds", role, took)
			}
			p.stop(t)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
