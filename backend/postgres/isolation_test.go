package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
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

// TestStrict: where the default isolation level has been in the way once, calls are transactions of their own that are READ COMMITTED. They
// keep every promise, also that of queue.ErrUnknown, where the answer to the commit is lost.
func TestStrict(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			direct, _ := way{driver: "pgx"}.open(t, dsn)
			s, through := cutting(t, dsn)
			db, _ := w.open(t, through)
			q := backend(t, db, postgres.Options{})
			q.Strict()
			commit := "COMMIT\x00"
			s.on.Store(&commit)
			if err := q.Enqueue(t.Context(), nil, jobs(3)...); !errors.Is(err, queue.ErrUnknown) {
				t.Errorf("Enqueue whose commit was not answered: %v, want %v", err, queue.ErrUnknown)
			}
			if got := value[int](t, direct, "SELECT count(*) FROM errand.jobs"); got != 3 {
				t.Errorf("%d jobs written, want 3", got)
			}
			row := "INSERT 0 1\x00"
			s.on.Store(&row)
			if err := q.Enqueue(t.Context(), nil, jobs(1)...); err == nil || errors.Is(err, queue.ErrUnknown) {
				t.Errorf("Enqueue that was cut before its commit: %v, want an error that is not %v", err, queue.ErrUnknown)
			}
			if got := value[int](t, direct, "SELECT count(*) FROM errand.jobs"); got != 3 {
				t.Errorf("%d jobs written, want the 3 of before", got)
			}
		})
	}
}
