package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestStricterIsolation: where the database's default is stricter than read
// committed, statements that fail to serialize are run again.
func TestStricterIsolation(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			const n = 2000
			db, q := fresh(t, postgres.Options{})
			name := value[string](t, db, `SELECT current_database()`)
			exec(t, db, `ALTER DATABASE `+name+` SET default_transaction_isolation = '`+level+`'`)
			db.SetMaxIdleConns(0) // only new connections know
			if got := value[string](t, db, `SHOW transaction_isolation`); got != level {
				t.Fatalf("isolation %s, want %s", got, level)
			}
			db.SetMaxIdleConns(16)
			enqueue(t, q, jobs(n)...)
			var ran atomic.Int64
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
				if ran.Add(1) == n {
					stop()
				}
				return nil
			})
			ended := make(chan error, 3)
			for range cap(ended) {
				go func() { ended <- queue.Worker{Backend: q, Handler: handler, Concurrency: 20}.Run(ctx) }()
			}
			for range cap(ended) {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if got := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'completed' AND attempts = 1`); got != n || ran.Load() != n {
				t.Errorf("%d completed in %d runs, want %d in %d", got, ran.Load(), n, n)
			}
		})
	}
}
