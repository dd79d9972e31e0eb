package dburl_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestHandleManyInTx: jobs of one call are settled in the transaction of their work. The first call
// rolls back, and then each job has its effect once.
func TestHandleManyInTx(t *testing.T) {
	const n = 300
	for _, b := range backends {
		t.Run(b.scheme, func(t *testing.T) {
			d := open(t, b.url(t))
			if d.DB == nil {
				t.Skip("it has no SQL")
			}
			if err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := d.DB.ExecContext(t.Context(), `CREATE TABLE effects (job bigint)`); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				enqueue(t, d, greeting.New(fmt.Sprint(i)))
			}
			var failed atomic.Bool
			mux := queue.NewMux()
			greeting.HandleMany(mux, queue.BatchOptions{}, func(ctx context.Context, jobs []*queue.Job, texts []string) []error {
				answers := make([]error, len(jobs))
				err := inTx(ctx, d.DB, func(tx *sql.Tx) error {
					outcomes := make([]queue.Outcome, len(jobs))
					for i, job := range jobs {
						if _, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO effects (job) VALUES (%d)`, job.ID)); err != nil {
							return err
						}
						outcomes[i], answers[i] = queue.Outcome{Job: job}, queue.ErrSettled
					}
					if lost, err := d.Queue.Settle(ctx, tx, outcomes...); err != nil || len(lost) > 0 {
						return errors.Join(err, fmt.Errorf("lost %d", len(lost)))
					}
					if !failed.Swap(true) {
						return errors.New("the first call fails")
					}
					return nil
				})
				for i := range answers {
					if err != nil {
						answers[i] = queue.RetryAfter(0, err)
					}
				}
				return answers
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			w := engine.Worker{Backend: d.Queue, Handler: mux, Concurrency: 200, Logger: slog.New(slog.DiscardHandler)}
			var completed atomic.Int64
			w.Observe = func(e queue.Event) {
				if e.Type == queue.EventCompleted && completed.Add(1) == n {
					stop()
				}
			}
			if err := w.Run(ctx); err != nil {
				t.Fatal(err)
			}
			var effects, jobs int
			if err := d.DB.QueryRowContext(t.Context(), `SELECT count(*), count(DISTINCT job) FROM effects`).Scan(&effects, &jobs); err != nil {
				t.Fatal(err)
			}
			if effects != n || jobs != n || completed.Load() != n {
				t.Errorf("got %d effects of %d jobs, and %d completed; want %d of each", effects, jobs, completed.Load(), n)
			}
		})
	}
}
