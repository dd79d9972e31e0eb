package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// driversPatience is the busy_timeout of DSN.
const driversPatience = 30 * time.Second

// deferred opens a file so that transactions have no lock before they need it.
func deferred(t *testing.T, driver string) (*sql.DB, *sqlite.Backend) {
	t.Helper()
	db := open(t, driver, strings.Replace(dsn(t), ways[1].without, "", 1))
	migrate(t, db, sqlite.Options{})
	return db, backend(t, db, sqlite.Options{})
}

// writerOperations are the calls that write on the backend's own handle.
func writerOperations(t *testing.T, q *sqlite.Backend) map[string]func(ctx context.Context) error {
	t.Helper()
	enqueue(t, q, jobs(4)...)
	held := claim(t, q, 2)
	dead := queue.Outcome{Job: held[0], Action: queue.Dead}
	if _, err := q.Settle(t.Context(), nil, dead); err != nil {
		t.Fatal(err)
	}
	return map[string]func(ctx context.Context) error{
		"Enqueue": func(ctx context.Context) error { return q.Enqueue(ctx, nil, &queue.Job{Kind: "test"}) },
		"Claim":   func(ctx context.Context) error { _, err := q.Claim(ctx, request(1)); return err },
		"Extend":  func(ctx context.Context) error { _, _, err := q.Extend(ctx, time.Minute, held[1]); return err },
		"Settle": func(ctx context.Context) error {
			_, err := q.Settle(ctx, nil, queue.Outcome{Job: held[1]})
			return err
		},
		"Redrive": func(ctx context.Context) error {
			_, err := q.Redrive(ctx, nil, queue.Selection{IDs: []int64{held[0].ID}})
			return err
		},
	}
}

// TestWaitsForTheLock: while another connection has the write lock each call waits, and goes
// through when it is free.
func TestWaitsForTheLock(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		for name, operation := range writerOperations(t, q) {
			tx := begin(t, db)
			execute(t, tx, `UPDATE errand_fences SET last = last`)
			ended := make(chan error, 1)
			go func() { ended <- operation(t.Context()) }()
			select {
			case err := <-ended:
				t.Errorf("%s beside a transaction that has written returned %v, want that it waits", name, err)
			case <-time.After(30 * time.Millisecond):
				commit(t, tx)
				if err := <-ended; err != nil {
					t.Errorf("%s after it has waited: %v", name, err)
				}
			}
		}
	})
}

// TestWaitEndsWithContext: what waits for the lock ends with its context, whatever the driver's own
// patience.
func TestWaitEndsWithContext(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		operations := writerOperations(t, q)
		tx := begin(t, db)
		execute(t, tx, `UPDATE errand_fences SET last = last`)
		for name, operation := range operations {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			start := time.Now()
			if err := operation(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want that of its context", name, err)
			}
			if took := time.Since(start); took > driversPatience/2 {
				t.Errorf("%s returned after %v: the driver's patience ended it, and not its context", name, took)
			}
			cancel()
		}
	})
}

// TestLockTimeout: a lock that is never free is an error that says so.
func TestLockTimeout(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, _ := fresh(t, driver, sqlite.Options{})
		q := backend(t, db, sqlite.Options{LockTimeout: 30 * time.Millisecond})
		tx := begin(t, db)
		execute(t, tx, `UPDATE errand_fences SET last = last`)
		err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"})
		if err == nil || !strings.Contains(err.Error(), "write lock for 30ms") || !sqlite.IsBusy(err) {
			t.Errorf("Enqueue beside a transaction that does not end: %v, want that another has had the lock for 30ms", err)
		}
		commit(t, tx)
		enqueue(t, q, jobs(1)...)
	})
}

// TestConnectionsAreLeftAsTheyWere: a call that writes changes a connection's busy_timeout only
// while it lasts.
func TestConnectionsAreLeftAsTheyWere(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		db.SetMaxOpenConns(1)
		enqueue(t, q, jobs(2)...)
		claim(t, q, 1)
		if got := value[int](t, db, `PRAGMA busy_timeout`); got != 30_000 {
			t.Errorf("busy_timeout after some calls: %d, want 30000", got)
		}
		if got := value[int](t, db, `PRAGMA synchronous`); got != 2 {
			t.Errorf("synchronous after some calls: %d, want 2, which is FULL", got)
		}
	})
}

// TestStaleTransaction: a transaction without the lock that has read what another changes then
// cannot write any more. Enqueue and Settle say what to do; the others go on.
func TestStaleTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := deferred(t, driver)
		enqueue(t, q, jobs(1)...)
		held := claim(t, q, 1)
		for name, operation := range map[string]func(tx *sql.Tx) error{
			"Enqueue":        func(tx *sql.Tx) error { return q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test"}) },
			"Enqueue, keyed": func(tx *sql.Tx) error { return q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test", Key: "a"}) },
			"ClaimTx":        func(tx *sql.Tx) error { _, err := q.ClaimTx(t.Context(), tx, request(1)); return err },
			"Settle": func(tx *sql.Tx) error {
				_, err := q.Settle(t.Context(), tx, queue.Outcome{Job: held[0]})
				return err
			},
		} {
			tx := begin(t, db)
			value[int](t, tx, `SELECT count(*) FROM errand_jobs`)
			enqueue(t, q, jobs(1)...)
			err := operation(tx)
			if err == nil || !strings.Contains(err.Error(), "_txlock=immediate") {
				t.Errorf("%s in a stale transaction: %v, want an error that names _txlock=immediate", name, err)
			}
			if err := tx.Rollback(); err != nil {
				t.Errorf("%s: rolling back: %v", name, err)
			}
			tx = begin(t, db)
			if err := operation(tx); err != nil {
				t.Errorf("%s in a transaction that was begun anew: %v", name, err)
			}
			_ = tx.Rollback()
		}
	})
}

// TestReadThenWriteWithTheLock: with the parameters of DSN a transaction may read before it
// enqueues, even if another transaction writes.
func TestReadThenWriteWithTheLock(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		tx := begin(t, db)
		value[int](t, tx, `SELECT count(*) FROM errand_jobs`)
		beside := make(chan error, 1)
		go func() { beside <- q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}) }()
		if err := q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test"}); err != nil {
			t.Errorf("Enqueue in a transaction that has read: %v", err)
		}
		commit(t, tx)
		if err := <-beside; err != nil {
			t.Errorf("Enqueue beside it: %v", err)
		}
		if got := len(claim(t, q, 3)); got != 2 {
			t.Errorf("claimed %d jobs, want 2", got)
		}
	})
}

// TestCallersTransactionWaits: a transaction without the lock whose first statement is Enqueue
// waits for it, even where the connection itself has no patience, and until its context ends.
func TestCallersTransactionWaits(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := deferred(t, driver)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		execute(t, conn, `PRAGMA busy_timeout = 0`)
		other := begin(t, db)
		execute(t, other, `UPDATE errand_fences SET last = last`)
		execute(t, conn, `BEGIN`)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := q.Enqueue(ctx, conn, &queue.Job{Kind: "test"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enqueue beside a transaction that has written: %v, want the error of its context", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- q.Enqueue(t.Context(), conn, &queue.Job{Kind: "test"}) }()
		select {
		case err := <-ended:
			t.Errorf("Enqueue beside a transaction that has written returned %v, want that it waits", err)
		case <-time.After(30 * time.Millisecond):
		}
		commit(t, other)
		if err := <-ended; err != nil {
			t.Errorf("Enqueue after it has waited: %v", err)
		}
		execute(t, conn, `COMMIT`)
		if got := len(claim(t, q, 2)); got != 1 {
			t.Errorf("claimed %d jobs, want 1", got)
		}
	})
}

// TestCallersTransactionEndsWithContext: a call in a transaction without the lock waits for it no
// longer than its context lasts, whatever the connection's busy_timeout, which is the same
// afterwards.
func TestCallersTransactionEndsWithContext(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := deferred(t, driver)
		enqueue(t, q, jobs(2)...)
		held := claim(t, q, 1)
		for name, operation := range map[string]func(ctx context.Context, tx *sql.Tx) error{
			"Enqueue": func(ctx context.Context, tx *sql.Tx) error { return q.Enqueue(ctx, tx, &queue.Job{Kind: "test"}) },
			"ClaimTx": func(ctx context.Context, tx *sql.Tx) error { _, err := q.ClaimTx(ctx, tx, request(1)); return err },
			"Settle": func(ctx context.Context, tx *sql.Tx) error {
				_, err := q.Settle(ctx, tx, queue.Outcome{Job: held[0]})
				return err
			},
		} {
			other, tx := begin(t, db), begin(t, db)
			execute(t, other, `UPDATE errand_fences SET last = last`)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			start := time.Now()
			if err := operation(ctx, tx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want that of its context", name, err)
			}
			if took := time.Since(start); took > driversPatience/2 {
				t.Errorf("%s returned after %v: the driver's patience ended it, and not its context", name, took)
			}
			commit(t, other)
			if err := operation(t.Context(), tx); err != nil {
				t.Errorf("%s, when the lock is free: %v", name, err)
			}
			if got := value[int](t, tx, `PRAGMA busy_timeout`); got != 30_000 {
				t.Errorf("%s: busy_timeout afterwards: %d, want 30000", name, got)
			}
			commit(t, tx)
		}
	})
}

// TestOneConnection: a *sql.DB that has only one connection does not block itself.
func TestOneConnection(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		db.SetMaxOpenConns(1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		done := make(chan struct{}, 100)
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error { done <- struct{}{}; return nil })
		ended := make(chan error, 1)
		go func() { ended <- engine.Worker{Backend: q, Handler: handler, Poll: time.Hour}.Run(ctx) }()
		for range 20 {
			tx := begin(t, db)
			if err := q.Enqueue(ctx, tx, &queue.Job{Kind: "test"}); err != nil {
				t.Fatal(err)
			}
			commit(t, tx)
			<-done
			enqueue(t, q, jobs(1)...)
			<-done
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCallersTransactionsGetTheirTurn: beside a worker that keeps the lock busy, a transaction of
// the caller's, which has SQLite's own patience, gets the lock within it. How long it waits is
// BenchmarkCallersTransaction's.
func TestCallersTransactionsGetTheirTurn(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		besideBusyWorker(t, driver, 30)
	})
}

// BenchmarkCallersTransaction is a small transaction of the caller's beside a worker that keeps the
// lock busy. SQLite tries again after 1, 2, 5 ms and so on up to 100 ms: one in ten took seconds
// where the worker left the lock alone for no longer than it had to.
func BenchmarkCallersTransaction(b *testing.B) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		b.Run(driver, func(b *testing.B) {
			took := besideBusyWorker(b, driver, b.N)
			slices.Sort(took)
			b.ReportMetric(took[len(took)*9/10].Seconds()*1e3, "p90-ms")
		})
	}
}

// besideBusyWorker makes n transactions while a worker claims and settles a thousand jobs at a
// time, and says how long each took.
func besideBusyWorker(t testing.TB, driver string, n int) (took []time.Duration) {
	t.Helper()
	db, q := fresh(t, driver, sqlite.Options{})
	for range 4 {
		enqueue(t, q, jobs(5000)...)
	}
	ctx, stop := context.WithCancel(t.Context())
	var handled atomic.Int64
	another := make(chan struct{}, 1) // thousand
	handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
		if handled.Add(1)%1000 == 0 {
			select {
			case another <- struct{}{}:
			default:
			}
		}
		return queue.Snooze(0) // there is no end of jobs
	})
	ended := make(chan error, 1)
	go func() { ended <- engine.Worker{Backend: q, Handler: handler, Concurrency: 100}.Run(ctx) }()
	for range n {
		<-another // so that it is the worker that is busy
		from := time.Now()
		tx := begin(t, db)
		execute(t, tx, `UPDATE errand_fences SET last = last`)
		commit(t, tx)
		took = append(took, time.Since(from))
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return took
}
