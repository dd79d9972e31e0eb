package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// drivers are those that the package is tested with.
var drivers = []string{"sqlite", "sqlite3"}

// onEach runs a test with the driver that needs no cgo. With ERRAND_TESTS=whole it runs it with
// each.
func onEach(t *testing.T, test func(t *testing.T, driver string)) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			if driver != drivers[0] && !extent.Whole() {
				t.Skip("ERRAND_TESTS=whole runs it")
			}
			test(t, driver)
		})
	}
}

// onBoth runs a test with each driver; with -short with the one that needs no cgo.
func onBoth(t *testing.T, test func(t *testing.T, driver string)) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			if driver != drivers[0] && testing.Short() {
				t.Skip("-short tests one driver")
			}
			test(t, driver)
		})
	}
}

// dsn is the name of a file that is not there yet.
func dsn(t testing.TB) string { return sqlite.DSN(filepath.Join(t.TempDir(), "test.db")) }

// open opens a database.
func open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// fresh is a queue in a file of its own.
func fresh(t testing.TB, driver string, o sqlite.Options) (*sql.DB, *sqlite.Backend) {
	t.Helper()
	db := open(t, driver, dsn(t))
	migrate(t, db, o)
	return db, backend(t, db, o)
}

func migrate(t testing.TB, db *sql.DB, o sqlite.Options) {
	t.Helper()
	if err := sqlite.Migrate(t.Context(), db, o); err != nil {
		t.Fatal(err)
	}
}

func backend(t testing.TB, db *sql.DB, o sqlite.Options) *sqlite.Backend {
	t.Helper()
	q, err := sqlite.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func execute(t testing.TB, db queue.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// value reads the one value that a query returns.
func value[T any](t testing.TB, db queue.DB, query string, args ...any) (v T) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatalf("%s: no rows (%v)", query, rows.Err())
	}
	if err := rows.Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func enqueue(t testing.TB, q queue.Enqueuer, jobs ...*queue.Job) {
	t.Helper()
	if err := q.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
}

func claim(t testing.TB, q queue.Consumer, n int) []*queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), request(n))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// settle settles jobs that are held.
func settle(t testing.TB, q queue.Consumer, outcomes ...queue.Outcome) {
	t.Helper()
	if lost, err := q.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) > 0 {
		t.Fatalf("Settle: %d of %d lost, error %v", len(lost), len(outcomes), err)
	}
}

func request(n int) queue.ClaimRequest {
	return queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: n, Lease: time.Minute, Worker: "tester"}
}

func jobs(n int) []*queue.Job {
	list := make([]*queue.Job, n)
	for i := range list {
		list[i] = &queue.Job{Kind: "test"}
	}
	return list
}

// begin opens a transaction.
func begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // where the test ended too early
	return tx
}

func commit(t testing.TB, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
