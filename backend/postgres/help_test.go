package postgres_test

import (
	"context"
	"database/sql"
	"flag"
	"net/url"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgres/pqlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestMain lets more tests run at once than there are processors, since most of their time they
// wait, and no more on a large machine, since the server has only so many connections. With
// ERRAND_TESTS=whole two at once leave time to what is measured beside them.
func TestMain(m *testing.M) {
	flag.Parse()
	most := "8"
	if extent.Whole() {
		most = "2"
	}
	if err := flag.Set("test.parallel", most); err != nil {
		panic(err)
	}
	m.Run()
}

// way is one way to reach the server.
type way struct {
	name   string
	driver string // as database/sql knows it
	mode   string // pgx's default_query_exec_mode; "" for its default
}

// ways are both drivers, and pgx in each of its query modes.
var ways = []way{
	{"pgx", "pgx", ""},
	{"pq", "postgres", ""},
	{"pgx-simple_protocol", "pgx", "simple_protocol"},
	{"pgx-cache_describe", "pgx", "cache_describe"},
	{"pgx-describe_exec", "pgx", "describe_exec"},
	{"pgx-exec", "pgx", "exec"},
}

// testedWays are both drivers. With ERRAND_TESTS=whole pgx in its other query modes is among them,
// and with -short they are pgx alone.
func testedWays() []way {
	switch {
	case testing.Short():
		return ways[:1]
	case extent.Whole():
		return ways
	}
	return ways[:2]
}

// firstWays returns the first n ways, or one without ERRAND_TESTS=whole.
func firstWays(n int) []way {
	if !extent.Whole() {
		n = 1
	}
	return ways[:n]
}

// open connects to dsn in this way, and returns the option to listen in it.
func (w way) open(t testing.TB, dsn string) (*sql.DB, postgres.Listen) {
	t.Helper()
	listen := postgres.Listen(pgxlisten.Listen)
	if w.driver == "postgres" {
		listen = pqlisten.New(dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if w.mode != "" {
		q := u.Query()
		q.Set("default_query_exec_mode", w.mode)
		u.RawQuery = q.Encode()
	}
	db, err := sql.Open(w.driver, u.String())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(16)
	t.Cleanup(func() { db.Close() })
	return db, listen
}

// fresh is a queue on pgx in a database of its own.
func fresh(t testing.TB, o postgres.Options) (*sql.DB, *postgres.Backend) {
	t.Helper()
	db := postgrestest.Open(t)
	return db, backend(t, db, o)
}

func backend(t testing.TB, db *sql.DB, o postgres.Options) *postgres.Backend {
	t.Helper()
	q, err := postgres.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func exec(t testing.TB, db queue.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// dropChecks makes the table as it was before it had checks: it holds whatever SQL writes.
func dropChecks(t testing.TB, db queue.DB) {
	t.Helper()
	exec(t, db, `ALTER TABLE errand.jobs DISABLE TRIGGER USER`)
	for _, domain := range []string{"job_name", "due_time", "attempt_limit"} {
		exec(t, db, `ALTER DOMAIN errand.`+domain+` DROP CONSTRAINT IF EXISTS jobs_values_check`)
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

// eventually waits until ok, which is asked every 10 ms.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}
