package pgxadapter_test

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// modes are pgx's query modes, by their names in a connection string.
var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// inModes runs test in every mode, with a pool on a database of its own.
func inModes(t *testing.T, test func(t *testing.T, pool *pgxpool.Pool)) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) { test(t, openPool(t, mode)) })
	}
}

func openPool(t testing.TB, mode string) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(postgrestest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", mode)
	q.Set("pool_max_conns", "16")
	u.RawQuery = q.Encode()
	pool, err := pgxpool.New(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// overPool is database/sql over the pool, and the queue on it.
func overPool(t testing.TB, pool *pgxpool.Pool) (*sql.DB, *postgres.Backend) {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	return db, over(t, db)
}

// over is a queue on db.
func over(t testing.TB, db *sql.DB) *postgres.Backend {
	t.Helper()
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// begin begins a transaction that is rolled back when the test ends, at the latest.
func begin(t testing.TB, from interface {
	Begin(context.Context) (pgx.Tx, error)
}) pgx.Tx {
	t.Helper()
	tx, err := from.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func rollback(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// read reads the one value that a query returns.
func read[T any](ctx context.Context, db queue.DB, query string, args ...any) (v T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return v, err
	}
	defer rows.Close()
	if !rows.Next() {
		return v, rows.Err()
	}
	if err := rows.Scan(&v); err != nil {
		return v, err
	}
	return v, rows.Close()
}

func value[T any](t testing.TB, db queue.DB, query string, args ...any) T {
	t.Helper()
	v, err := read[T](t.Context(), db, query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func exec(t testing.TB, db queue.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func newJobs(n int) []*queue.Job {
	list := make([]*queue.Job, n)
	for i := range list {
		list[i] = &queue.Job{Kind: "test", Payload: []byte(`{"to": "alice@example.com"}`)}
	}
	return list
}

// eventually waits until ok, which is asked every few milliseconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		case <-tick.C:
		}
	}
}
