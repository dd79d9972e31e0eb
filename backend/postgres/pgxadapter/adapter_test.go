package pgxadapter_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/queue"
)

// TestHandles: everything that pgx runs statements on is taken.
func TestHandles(t *testing.T) {
	pool := openPool(t, "cache_statement")
	_, q := overPool(t, pool)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx := begin(t, pool)
	for _, h := range []pgxadapter.Handle{pool, conn, conn.Conn(), tx, begin(t, tx)} {
		if err := q.Enqueue(t.Context(), pgxadapter.DB(h), newJobs(2)...); err != nil {
			t.Errorf("Enqueue through %T: %v", h, err)
		}
	}
	if got := value[int](t, pgxadapter.DB(pool), `SELECT count(*) FROM errand.jobs`); got != 6 {
		t.Errorf("%d jobs outside the open transactions, want 6", got)
	}
}

func TestNilHandle(t *testing.T) {
	_, q := overPool(t, openPool(t, "cache_statement"))
	for name, db := range map[string]queue.DB{
		"Tx(nil)":                 pgxadapter.Tx(nil),
		"DB(nil)":                 pgxadapter.DB(nil),
		"a nil *pgxpool.Tx":       pgxadapter.Tx((*pgxpool.Tx)(nil)),
		"a nil *pgxpool.Tx in DB": pgxadapter.DB((*pgxpool.Tx)(nil)),
		"a nil *pgxpool.Conn":     pgxadapter.DB((*pgxpool.Conn)(nil)),
		"a nil *pgxpool.Pool":     pgxadapter.DB((*pgxpool.Pool)(nil)),
		"a nil *pgx.Conn":         pgxadapter.DB((*pgx.Conn)(nil)),
	} {
		_, execErr := db.ExecContext(t.Context(), `SELECT 1`)
		_, queryErr := read[int](t.Context(), db, `SELECT 1`)
		for operation, err := range map[string]error{
			"ExecContext":  execErr,
			"QueryContext": queryErr,
			"Enqueue":      q.Enqueue(t.Context(), db, newJobs(1)...),
		} {
			if bad := (*queue.InvalidError)(nil); !errors.As(err, &bad) || bad.Field != "DB" {
				t.Errorf("%s with %s: got %v, want an InvalidError for DB", operation, name, err)
			}
		}
	}
}

// TestErrors: what the server says comes through whole, when a query begins, among its rows, and in
// a transaction that has failed.
func TestErrors(t *testing.T) {
	inModes(t, func(t *testing.T, pool *pgxpool.Pool) {
		_, q := overPool(t, pool)
		tx := begin(t, pool)
		db := pgxadapter.Tx(tx)
		savepoint := begin(t, tx)
		wantState(t, "a bad query", early(t, db, `SELECT nothing`), "42703")
		wantState(t, "Enqueue after an error", q.Enqueue(t.Context(), db, newJobs(1)...), "25P02")
		_, err := db.ExecContext(t.Context(), `SELECT 1`)
		wantState(t, "ExecContext after an error", err, "25P02")
		rollback(t, savepoint)

		rows, err := db.QueryContext(t.Context(), `SELECT 1 / (3 - n) FROM generate_series(1, 5) AS n`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
		}
		wantState(t, "a query that fails at its third row", rows.Err(), "22012")
	})
}

// early is the error that QueryContext itself returns, before there are rows.
func early(t *testing.T, db queue.DB, query string) error {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		return err
	}
	defer rows.Close()
	t.Errorf("%s: got rows, with the error %v", query, rows.Err())
	return nil
}

func wantState(t *testing.T, what string, err error, want string) {
	t.Helper()
	var pgErr *pgconn.PgError
	var state interface{ SQLState() string }
	if !errors.As(err, &pgErr) || !errors.As(err, &state) || pgErr.Code != want || state.SQLState() != want {
		t.Errorf("%s: got %v, want a PgError with %s", what, err, want)
	}
}

// TestSavepoints: a job is enqueued if every transaction around it commits.
func TestSavepoints(t *testing.T) {
	inModes(t, func(t *testing.T, pool *pgxpool.Pool) {
		_, q := overPool(t, pool)
		enqueue := func(tx pgx.Tx, kind string) {
			t.Helper()
			if err := q.Enqueue(t.Context(), pgxadapter.Tx(tx), &queue.Job{Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
		outer := begin(t, pool)
		enqueue(outer, "outer")
		undone := begin(t, outer)
		enqueue(undone, "undone")
		rollback(t, undone)
		inner := begin(t, outer)
		enqueue(inner, "inner")
		commit(t, inner)
		if got := value[int](t, pgxadapter.DB(pool), `SELECT count(*) FROM errand.jobs`); got != 0 {
			t.Errorf("%d jobs before the outer commit, want 0", got)
		}
		commit(t, outer)
		got := value[string](t, pgxadapter.DB(pool), `SELECT string_agg(kind, ' ' ORDER BY id) FROM errand.jobs`)
		if want := "outer inner"; got != want {
			t.Errorf("jobs %q, want %q", got, want)
		}
	})
}

// TestEnded: a transaction that is over says so.
func TestEnded(t *testing.T) {
	pool := openPool(t, "cache_statement")
	tx := begin(t, pool)
	rollback(t, tx)
	if _, err := read[int](t.Context(), pgxadapter.Tx(tx), `SELECT 1`); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("QueryContext: got %v, want %v", err, pgx.ErrTxClosed)
	}
	if _, err := pgxadapter.Tx(tx).ExecContext(t.Context(), `SELECT 1`); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("ExecContext: got %v, want %v", err, pgx.ErrTxClosed)
	}
}

// TestCancelled: a context that ends before or amid a statement is its error.
func TestCancelled(t *testing.T) {
	inModes(t, func(t *testing.T, pool *pgxpool.Pool) {
		_, q := overPool(t, pool)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		db := pgxadapter.Tx(begin(t, pool))
		if _, err := read[int](ended, db, `SELECT 1`); !errors.Is(err, context.Canceled) {
			t.Errorf("QueryContext when ctx had ended: got %v, want %v", err, context.Canceled)
		}
		if err := q.Enqueue(ended, db, newJobs(1)...); !errors.Is(err, context.Canceled) {
			t.Errorf("Enqueue when ctx had ended: got %v, want %v", err, context.Canceled)
		}
		if got := value[int](t, db, `SELECT 1`); got != 1 {
			t.Errorf("the transaction returns %d afterwards, want 1", got)
		}

		ctx, cancel := context.WithCancel(t.Context())
		slept := make(chan error, 1)
		go func() {
			_, err := read[string](ctx, db, `SELECT pg_sleep(60)::text`)
			slept <- err
		}()
		eventually(t, "the server sleeps", func() bool {
			return value[int](t, pgxadapter.DB(pool), `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event = 'PgSleep'`) == 1
		})
		cancel()
		if err := <-slept; !errors.Is(err, context.Canceled) {
			t.Errorf("QueryContext amid which ctx ended: got %v, want %v", err, context.Canceled)
		}
	})
}

// TestCancelledAmidRows: rows whose context ends are closed, and the connection is not touched any
// more once Close has returned, as the race detector would tell.
func TestCancelledAmidRows(t *testing.T) {
	pool := openPool(t, "cache_statement")
	for range 50 {
		tx := begin(t, pool)
		cancelAmidRows(t, pgxadapter.Tx(tx))
		_ = tx.Rollback(t.Context()) // the connection may be gone
	}
	eventually(t, "all connections are back", func() bool { return pool.Stat().AcquiredConns() == 0 })
}

func cancelAmidRows(t *testing.T, db queue.DB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows, err := db.QueryContext(ctx, `SELECT generate_series(1, 3)`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	rows.Next()
	cancel()
	if err := rows.Err(); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("rows whose ctx has ended: got %v, want %v or nil", err, context.Canceled)
	}
}
