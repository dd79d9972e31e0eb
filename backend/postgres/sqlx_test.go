package postgres_test

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestSqlx: Enqueue accepts sqlx's handles as they are, above all its transaction.
func TestSqlx(t *testing.T) {
	t.Parallel()
	std, q := fresh(t, postgres.Options{})
	db := sqlx.NewDb(std, "pgx")
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := q.Enqueue(t.Context(), tx, jobs(2)...); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, q, 2); len(got) != 0 {
		t.Errorf("claimed %d jobs before the commit, want 0", len(got))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	held := claim(t, q, 2)
	if len(held) != 2 {
		t.Fatalf("claimed %d jobs after the commit, want 2", len(held))
	}
	tx = db.MustBegin()
	defer tx.Rollback()
	if lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1]}); err != nil || len(lost) != 0 {
		t.Errorf("Settle: lost %v, %v", lost, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var done int
	if err := db.Get(&done, `SELECT count(*) FROM errand.jobs WHERE status = 'completed'`); err != nil || done != 2 {
		t.Errorf("%d completed (%v), want 2", done, err)
	}
}
