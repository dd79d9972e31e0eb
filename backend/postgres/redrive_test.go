package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestRedriveBesideItsKey: a transaction that enqueues the key of a dead job, and
// commits while Redrive waits for it, keeps the job dead, and Redrive goes on.
func TestRedriveBesideItsKey(t *testing.T) {
	t.Parallel()
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
	redriven := redriveAll(t, q)
	eventually(t, "Redrive waits for the key", func() bool { return waiting(t, db) == 1 })
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := <-redriven; got != (redrove{1, nil}) {
		t.Errorf("got %d jobs and error %v, want 1, nil", got.n, got.err)
	}
	if got := value[string](t, db, `SELECT string_agg(status::text, ' ' ORDER BY id) FROM errand.jobs`); got != "dead pending pending" {
		t.Errorf("got jobs %s, want dead pending pending", got)
	}
}

type redrove struct {
	n   int
	err error
}

// redriveAll redrives the default queue in the background.
func redriveAll(t *testing.T, q *postgres.Backend) <-chan redrove {
	done := make(chan redrove, 1)
	go func() {
		n, err := q.Redrive(t.Context(), nil, queue.Selection{Queue: queue.DefaultQueue})
		done <- redrove{n, err}
	}()
	return done
}

// waiting counts the sessions that wait for another transaction to end.
func waiting(t *testing.T, db *sql.DB) int {
	return value[int](t, db, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'
		AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`)
}

// TestRedriveAndKeyedEnqueue: Redrive and an Enqueue in a caller's transaction want the same keys,
// and the dead jobs' ids are in another order than their keys. Neither gets a deadlock.
func TestRedriveAndKeyedEnqueue(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, &queue.Job{Kind: "test", Key: "c"}) // before a in the table, too
	enqueue(t, q, &queue.Job{Kind: "test", Key: "a"})
	exec(t, db, "UPDATE errand.jobs SET status = 'dead'")
	between, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer between.Rollback()
	if err := q.Enqueue(t.Context(), between, &queue.Job{Kind: "test", Key: "b"}); err != nil {
		t.Fatal(err)
	}
	caller, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Rollback()
	enqueued := make(chan error, 1)
	go func() {
		err := q.Enqueue(t.Context(), caller, &queue.Job{Kind: "test", Key: "a"}, &queue.Job{Kind: "test", Key: "b"}, &queue.Job{Kind: "test", Key: "c"})
		if err == nil {
			err = caller.Commit()
		}
		enqueued <- err
	}()
	eventually(t, "Enqueue has a and waits for b", func() bool { return waiting(t, db) == 1 })
	redriven := redriveAll(t, q)
	eventually(t, "Redrive waits for a", func() bool { return waiting(t, db) == 2 })
	// The server looks for a deadlock once a wait, after deadlock_timeout: Redrive's look finds
	// none, and so it is Enqueue's that would.
	time.Sleep(1100 * time.Millisecond)
	if err := between.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-enqueued; err != nil {
		t.Error("Enqueue:", err)
	}
	if got := <-redriven; got != (redrove{1, nil}) {
		t.Errorf("Redrive: got %d jobs and error %v, want 1, nil: c, whose key was free", got.n, got.err)
	}
	if got := value[int](t, db, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); got != 0 {
		t.Errorf("the server ended %d deadlocks", got)
	}
}
