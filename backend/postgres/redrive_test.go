package postgres_test

import (
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestRedriveBesideItsKey: a transaction that enqueues the key of a dead job, and
// commits while Redrive waits for it, keeps the job dead, and Redrive goes on.
func TestRedriveBesideItsKey(t *testing.T) {
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, &queue.Job{Kind: "test", Key: "k"}, &queue.Job{Kind: "test"})
	exec(t, db, "UPDATE errand.jobs SET status = 'dead'")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	type result struct {
		n   int
		err error
	}
	redriven := make(chan result, 1)
	go func() {
		n, err := q.Redrive(t.Context(), queue.Redrive{Queue: queue.DefaultQueue})
		redriven <- result{n, err}
	}()
	eventually(t, "Redrive waits for the key", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) == 1
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := <-redriven; got != (result{1, nil}) {
		t.Errorf("got %d jobs and error %v, want 1, nil", got.n, got.err)
	}
	if got := value[string](t, db, `SELECT string_agg(status::text, ' ' ORDER BY id) FROM errand.jobs`); got != "dead pending pending" {
		t.Errorf("got jobs %s, want dead pending pending", got)
	}
}
