package opstest

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Main runs the tests of a package, and lets more tests run at once: nearly all of their time they
// wait.
func Main(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

// Fresh is a queue in a PostgreSQL database of its own.
func Fresh(t *testing.T) (*sql.DB, *postgres.Backend) {
	t.Helper()
	db := postgrestest.Open(t)
	return db, Backend(t, db, postgres.Options{})
}

// Backend makes a backend of a database.
func Backend(t *testing.T, db *sql.DB, o postgres.Options) *postgres.Backend {
	t.Helper()
	q, err := postgres.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// FreshFile is a queue in a SQLite file of its own.
func FreshFile(t *testing.T) (*sql.DB, *sqlite.Backend) {
	t.Helper()
	return OpenFile(t, filepath.Join(t.TempDir(), "jobs.db"))
}

// OpenFile is a queue in a new SQLite file.
func OpenFile(t *testing.T, path string) (*sql.DB, *sqlite.Backend) {
	t.Helper()
	db, err := sqlite.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := sqlite.Migrate(t.Context(), db, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db, q
}

// Exec executes a statement.
func Exec(t *testing.T, db queue.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// Enqueue enqueues a job and returns its ID.
func Enqueue(t *testing.T, q queue.Enqueuer, job queue.Job) int64 {
	t.Helper()
	if job.Kind == "" {
		job.Kind = "test"
	}
	if err := q.Enqueue(t.Context(), nil, &job); err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// Claim claims the due jobs of a queue, "" for the default one, as worker "w".
func Claim(t *testing.T, q queue.Consumer, name string, lease time.Duration) []*queue.Job {
	t.Helper()
	if name == "" {
		name = queue.DefaultQueue
	}
	jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{name}, Limit: 100, Lease: lease, Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// Settle settles jobs, and fails if one is lost.
func Settle(t *testing.T, q queue.Consumer, outcomes ...queue.Outcome) {
	t.Helper()
	if lost, err := q.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) > 0 {
		t.Fatalf("Settle: %d lost, error %v", len(lost), err)
	}
}

// Begin begins a transaction that the end of the test rolls back.
func Begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// Examine returns the findings of doctor that are neither ok nor skipped, by their IDs.
func Examine(t *testing.T, q queue.Queue, o doctor.Options) map[string]doctor.Check {
	t.Helper()
	report, err := doctor.Examine(t.Context(), q, o)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]doctor.Check)
	for _, c := range report.Checks {
		t.Logf("%-13s %-7s %s", c.ID, c.Level, c.Value)
		switch {
		case c.Level == ops.OK || c.Level == ops.Skipped:
		case c.ID == "durability" || c.ID == "version":
			// Servers for tests do not sync, and may be of an old version.
		default:
			found[c.ID] = c
		}
	}
	return found
}

// Explain returns the answer to a question.
func Explain(t *testing.T, q queue.Queue, question explain.Question) explain.Answer {
	t.Helper()
	a, err := explain.Job(t.Context(), q, question)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Reasons {
		t.Logf("%s (%s): %s %q %s", r.ID, r.Level, r.Verdict, r.Evidence, r.Remedy)
	}
	return a
}

// Report makes a worker report itself, with queues and without kinds.
func Report(t *testing.T, q driver.Fleet, w driver.WorkerInfo) {
	t.Helper()
	if w.Concurrency == 0 {
		w.Concurrency = 1
	}
	if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, Age: time.Minute, ClaimAge: time.Second}); err != nil {
		t.Fatal(err)
	}
}

// Run runs a worker until the end of the test, and waits until it has reported itself. The
// function that it returns tells the worker to stop.
func Run(t *testing.T, w engine.Worker) (stop func()) {
	t.Helper()
	fleet, _ := driver.As[driver.Fleet](w.Backend)
	w.Grace = time.Minute
	halt := make(chan struct{})
	w.Halt = halt
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() {
		stop()
		close(halt)
		running.Wait()
	})
	Eventually(t, "the worker has reported itself", func() bool { return len(Workers(t, fleet)) > 0 })
	return stop
}

// Workers returns the workers that have reported themselves.
func Workers(t *testing.T, fleet driver.Fleet) []driver.WorkerRecord {
	t.Helper()
	list, err := fleet.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Eventually waits until ok, which is asked every few milliseconds.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}

// WantDead waits until the server's statistics have dead rows.
func WantDead(t *testing.T, db *sql.DB, what string) {
	t.Helper()
	Eventually(t, what, func() (has bool) {
		err := db.QueryRowContext(t.Context(), `SELECT n_dead_tup > 0 FROM pg_stat_all_tables WHERE relid = 'errand.jobs'::regclass`).Scan(&has)
		return err == nil && has
	})
}

// InOwnSession executes a statement in a session that has then ended.
func InOwnSession(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := conn.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // closes the connection
	Eventually(t, "the session has ended", func() (ended bool) {
		err := db.QueryRowContext(t.Context(), `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid).Scan(&ended)
		return err == nil && ended
	})
}

// SkipOutsideCI skips the test because this machine lacks what err names. In CI, which has it, the
// test fails.
func SkipOutsideCI(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip("SKIPPED, and CI would fail: ", err)
}
