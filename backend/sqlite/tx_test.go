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
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// TestTxKeepsLeases: ten handlers at once with middleware.Tx, each of which holds the write lock for a fifth of the lease, take turns,
// and the worker extends their leases in between: none is lost, and no job runs twice.
func TestTxKeepsLeases(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
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
				if !errors.Is(err, queue.Settled) {
					t.Errorf("job %d: %v", job.ID, err)
				}
				if ended.Add(1) == count {
					stop()
				}
				return err
			})
		}
		err := queue.Worker{
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
