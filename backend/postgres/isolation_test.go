package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestStricterIsolation: if the database's default isolation is stricter than read committed,
// statements that fail to serialize run again.
func TestStricterIsolation(t *testing.T) {
	extent.Long(t)
	t.Parallel()
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
				go func() { ended <- engine.Worker{Backend: q, Handler: handler, Concurrency: 20}.Run(ctx) }()
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

// TestStrict: after the default isolation level has made a statement fail, each call is a READ
// COMMITTED transaction of its own. It keeps every promise, also queue.ErrUnknown if the commit is
// not answered.
func TestStrict(t *testing.T) {
	t.Parallel()
	for _, w := range testedWays() {
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
			// Nothing is committed then. A driver that calls the connection bad lets the call run again.
			isRetried := w.driver == "postgres"
			err := q.Enqueue(t.Context(), nil, jobs(1)...)
			if (err == nil) != isRetried || errors.Is(err, queue.ErrUnknown) {
				t.Errorf("Enqueue that was cut before its commit: %v, want an error, which is not %v: %t", err, queue.ErrUnknown, !isRetried)
			}
			want := 3
			if isRetried {
				want = 4
			}
			if got := value[int](t, direct, "SELECT count(*) FROM errand.jobs"); got != want {
				t.Errorf("%d jobs written, want %d", got, want)
			}
		})
	}
}

// TestFrozenInTransaction: a worker that is frozen in such a transaction keeps its locks for about
// a second, and not for as long as it is frozen. Its claim has taken nothing then. The worker
// learns that when it goes on; over lib/pq it learns only that the outcome is unknown.
func TestFrozenInTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	for _, w := range testedWays() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			direct, _ := way{driver: "pgx"}.open(t, dsn)
			s, through := cutting(t, dsn)
			s.frozen = make(chan struct{})
			thaw := sync.OnceFunc(func() { close(s.frozen) })
			defer thaw()
			db, _ := w.open(t, through)
			q := backend(t, db, postgres.Options{})
			q.Strict()
			enqueue(t, q, jobs(1)...)
			answer := "UPDATE 1\x00"
			s.on.Store(&answer)
			var claimed []*queue.Job
			var err error
			over := make(chan struct{})
			go func() {
				defer close(over)
				claimed, err = q.Claim(t.Context(), request(1))
			}()
			eventually(t, "the claim has locked the job", func() bool { return s.on.Load() == nil })
			exec(t, direct, "SET lock_timeout = '10s'; SELECT FROM errand.jobs FOR UPDATE")
			thaw()
			<-over
			if w.driver == "postgres" && errors.Is(err, queue.ErrUnknown) {
				claimed, err = q.Claim(t.Context(), request(1))
			}
			if err != nil || len(claimed) != 1 || claimed[0].Attempt != 1 {
				t.Errorf("claimed %v, %v, want the job in its first attempt", claimed, err)
			}
		})
	}
}
