package pgxadapter_test

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// uses are the ways in which a query can end.
var uses = []struct {
	name string
	use  func(t *testing.T, db queue.DB)
}{
	{"read to the end", func(t *testing.T, db queue.DB) {
		rows := query(t, t.Context(), db, `SELECT generate_series(1, 3)`)
		n := 0
		for rows.Next() {
			n++
		}
		if rows.Err() != nil || n != 3 {
			t.Errorf("got %d rows, %v; want 3", n, rows.Err())
		}
	}},
	{"closed after the first row", func(t *testing.T, db queue.DB) {
		rows := query(t, t.Context(), db, `SELECT generate_series(1, 10000)`)
		if !rows.Next() || rows.Close() != nil {
			t.Errorf("no first row, or it could not be closed: %v", rows.Err())
		}
	}},
	{"closed unread", func(t *testing.T, db queue.DB) {
		if err := query(t, t.Context(), db, `SELECT generate_series(1, 10000)`).Close(); err != nil {
			t.Error(err)
		}
	}},
	{"without rows", func(t *testing.T, db queue.DB) {
		rows := query(t, t.Context(), db, `SELECT 1 WHERE false`)
		if rows.Next() || rows.Err() != nil {
			t.Errorf("got a row, or %v", rows.Err())
		}
	}},
	{"not scanned", func(t *testing.T, db queue.DB) {
		rows := query(t, t.Context(), db, `SELECT 'x'`)
		if rows.Next(); rows.Scan(new(int)) == nil {
			t.Error("x was scanned as a number")
		}
		rows.Close()
	}},
	{"bad argument", func(t *testing.T, db queue.DB) {
		if _, err := read[int](t.Context(), db, `SELECT $1::integer`, sql.Named("n", 1)); err == nil {
			t.Error("got no error")
		}
	}},
	{"context ended before", func(t *testing.T, db queue.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := read[int](ctx, db, `SELECT 1`); err == nil {
			t.Error("got no error")
		}
	}},
	{"context ended amid", func(t *testing.T, db queue.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		rows := query(t, ctx, db, `SELECT generate_series(1, 3)`)
		cancel()
		eventually(t, "the rows are closed", func() bool { return !rows.Next() })
	}},
	{"bad query", func(t *testing.T, db queue.DB) {
		if _, err := read[int](t.Context(), db, `SELECT nothing`); err == nil {
			t.Error("got no error")
		}
	}},
}

func query(t *testing.T, ctx context.Context, db queue.DB, text string) *sql.Rows {
	t.Helper()
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rows.Close() })
	return rows
}

// TestNothingIsLeft: however a query ends, no goroutine of database/sql is left and no connection
// of the pool is in use.
func TestNothingIsLeft(t *testing.T) {
	extent.Long(t)
	pool := openPool(t, "cache_statement")
	for _, u := range uses {
		t.Run(u.name, func(t *testing.T) {
			before := sqlGoroutines()
			for range 20 {
				u.use(t, pgxadapter.DB(pool))
			}
			inTx(t, pool, u.use)
			eventually(t, "the connections are back in the pool", func() bool { return pool.Stat().AcquiredConns() == 0 })
			eventually(t, "the goroutines of database/sql have ended", func() bool { return sqlGoroutines() <= before })
		})
	}
}

// inTx runs use in a transaction that is then rolled back.
func inTx(t *testing.T, pool *pgxpool.Pool, use func(*testing.T, queue.DB)) {
	t.Helper()
	tx := begin(t, pool)
	use(t, pgxadapter.Tx(tx))
	_ = tx.Rollback(t.Context()) // which fails if the context took the connection along
}

// sqlGoroutines counts the goroutines that database/sql has started.
func sqlGoroutines() int {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	return strings.Count(string(buf), "created by database/sql.")
}
