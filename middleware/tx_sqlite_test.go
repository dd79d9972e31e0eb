package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
	_ "modernc.org/sqlite"          // the driver "sqlite"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// TestTxEndedBySQLite: a job whose transaction SQLite has ended by itself is not completed,
// although its handler returns nil.
func TestTxEndedBySQLite(t *testing.T) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		for name, o := range map[string]middleware.TxOptions{"settled last": {}, "settled first": {SettleFirst: true}} {
			t.Run(driver+", "+name, func(t *testing.T) {
				db, q := openSQLite(t, driver)
				if err := q.Enqueue(t.Context(), nil, pay.New(payment{})); err != nil {
					t.Fatal(err)
				}
				jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "tester"})
				if err != nil || len(jobs) != 1 {
					t.Fatalf("claimed %d jobs (%v), want 1", len(jobs), err)
				}
				h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
					if err := handle(ctx, tx, job); err != nil {
						return err
					}
					short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
					defer cancel()
					_, _ = tx.ExecContext(short, `WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
						INSERT INTO payments SELECT x FROM c WHERE x < 0`) // it does not matter to the handler
					return nil
				}), middleware.Tx(db, q, o))
				if err := h.HandleJob(t.Context(), jobs[0]); err == nil || errors.Is(err, queue.ErrSettled) {
					t.Errorf("got %v, want another error", err)
				}
				rec, ok, err := q.Job(t.Context(), jobs[0].ID)
				if err != nil || !ok || rec.Status != queue.StatusRunning {
					t.Errorf("the job is %q (%v), want running", rec.Status, err)
				}
				var effects int
				if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM payments`).Scan(&effects); err != nil || effects != 0 {
					t.Errorf("%d effects (%v), want 0", effects, err)
				}
			})
		}
	}
}

func openSQLite(t *testing.T, driver string) (*sql.DB, *sqlite.Backend) {
	t.Helper()
	db, err := sqlite.Open(driver, filepath.Join(t.TempDir(), "test.db"))
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
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE payments (job)`); err != nil {
		t.Fatal(err)
	}
	return db, q
}
