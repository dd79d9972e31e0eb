package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// endings are the ways in which SQLite ends a transaction by itself, while its handle does not
// know.
var endings = map[string]func(t *testing.T, tx *sql.Tx){
	"interrupted": func(t *testing.T, tx *sql.Tx) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := tx.ExecContext(ctx, `WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
			INSERT INTO effects SELECT x FROM c WHERE x < 0`); err == nil {
			t.Fatal("a statement without end has ended")
		}
	},
	"disk full": func(t *testing.T, tx *sql.Tx) {
		value[int](t, tx, `PRAGMA max_page_count = 1`) // as many as there are
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO effects VALUES (zeroblob(1000000))`); err == nil {
			t.Fatal("a megabyte was written to a full disk")
		}
		value[int](t, tx, `PRAGMA max_page_count = 1000000`)
	},
}

// TestEndedTransaction: where SQLite has ended a transaction by itself, errand writes nothing
// through its handle. It would be committed at once, without the transaction's other effects.
func TestEndedTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		for name, end := range endings {
			t.Run(name, func(t *testing.T) {
				db, q := fresh(t, driver, sqlite.Options{})
				execute(t, db, `CREATE TABLE effects (what)`)
				enqueue(t, q, jobs(2)...)
				held := claim(t, q, 1)
				for operation, call := range map[string]func(tx *sql.Tx) error{
					"Enqueue":        func(tx *sql.Tx) error { return q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test"}) },
					"Enqueue, keyed": func(tx *sql.Tx) error { return q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test", Key: "a"}) },
					"ClaimTx":        func(tx *sql.Tx) error { _, err := q.ClaimTx(t.Context(), tx, request(1)); return err },
					"Settle": func(tx *sql.Tx) error {
						_, err := q.Settle(t.Context(), tx, queue.Outcome{Job: held[0]})
						return err
					},
				} {
					tx := begin(t, db)
					execute(t, tx, `INSERT INTO effects VALUES (1)`)
					end(t, tx)
					if err := call(tx); !errors.Is(err, sql.ErrTxDone) {
						t.Errorf("%s: got %v, want sql.ErrTxDone", operation, err)
					}
					if err := tx.Commit(); err == nil {
						t.Errorf("%s: the transaction that SQLite has ended was committed", operation)
					}
				}
				if n := value[int](t, db, `SELECT count(*) FROM effects`); n != 0 {
					t.Errorf("%d effects are left, want 0", n)
				}
				if n := value[int](t, db, `SELECT count(*) FROM errand_jobs WHERE status = 'pending'`); n != 1 {
					t.Errorf("%d jobs are pending, want the one that was never claimed", n)
				}
				if lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}); err != nil || len(lost) != 0 {
					t.Errorf("settling the job afterwards: lost %v, %v; want neither", lost, err)
				}
			})
		}
	})
}
