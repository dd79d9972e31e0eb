package postgres_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestClaimTxTwoPhase claims in a transaction that is prepared: the job stays locked, whatever
// becomes of the connection, until the other phase.
func TestClaimTxTwoPhase(t *testing.T) {
	t.Parallel()
	for _, keep := range []time.Duration{0, -1} {
		for _, end := range []string{"COMMIT PREPARED", "ROLLBACK PREPARED"} {
			t.Run(end, func(t *testing.T) {
				db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: keep}})
				enqueue(t, q, jobs(1)...)
				id := prepare(t, db, q)
				if got := claim(t, q, 1); len(got) != 0 {
					t.Errorf("%d jobs can be claimed beside the prepared transaction, want 0", len(got))
				}
				exec(t, db, end+" '"+id+"'")
				left := claim(t, q, 1)
				if want := end == "ROLLBACK PREPARED"; (len(left) == 1) != want {
					t.Errorf("after %s %d jobs can be claimed", end, len(left))
				}
			})
		}
	}
}

// prepare claims a job on a connection of its own, prepares the transaction and closes the
// connection.
func prepare(t *testing.T, db *sql.DB, q *postgres.Backend) (id string) {
	t.Helper()
	id = value[string](t, db, `SELECT current_database()`)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec(t, conn, "BEGIN")
	job, err := q.ClaimTx(t.Context(), conn, request(1))
	if err != nil || job == nil {
		t.Fatalf("ClaimTx: %v, %v", job, err)
	}
	exec(t, conn, "PREPARE TRANSACTION '"+id+"'")
	return id
}

// TestClaimTxCrash: the job of a connection that breaks can be claimed again at once.
func TestClaimTxCrash(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(1)...)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	pid := value[int](t, tx, `SELECT pg_backend_pid()`)
	if job, err := q.ClaimTx(t.Context(), tx, request(1)); err != nil || job == nil || job.Attempt != 1 {
		t.Fatalf("ClaimTx: %v, %v", job, err)
	}
	exec(t, db, `SELECT pg_terminate_backend($1)`, pid)
	eventually(t, "the job of the dead connection can be claimed", func() bool { return len(claim(t, q, 1)) == 1 })
}

// TestPreparedEnqueue: a silent backend enqueues in a transaction that is to be prepared while a
// worker sleeps, where a notification would forbid it.
func TestPreparedEnqueue(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Silent: true})
	if _, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	id := value[string](t, db, `SELECT current_database()`)
	exec(t, conn, "BEGIN")
	if err := q.Enqueue(t.Context(), conn, jobs(1)...); err != nil {
		t.Fatal(err)
	}
	exec(t, conn, "PREPARE TRANSACTION '"+id+"'")
	exec(t, conn, "COMMIT PREPARED '"+id+"'")
	if got := claim(t, q, 1); len(got) != 1 {
		t.Errorf("claimed %d jobs after COMMIT PREPARED, want 1", len(got))
	}
}

// TestClaimTxFailure: a savepoint undoes work that has failed, and the failure is recorded in the
// same transaction, whether completed jobs are kept or not.
func TestClaimTxFailure(t *testing.T) {
	t.Parallel()
	for _, keep := range []time.Duration{0, -1} {
		db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: keep}})
		exec(t, db, `CREATE TABLE effects ()`)
		enqueue(t, q, &queue.Job{Kind: "test", MaxAttempts: 2})
		for attempt := 1; attempt <= 2; attempt++ {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			job, err := q.ClaimTx(t.Context(), tx, request(1))
			if err != nil || job == nil || job.Attempt != attempt {
				t.Fatalf("ClaimTx: %+v, %v; want attempt %d", job, err, attempt)
			}
			exec(t, tx, `SAVEPOINT work`)
			exec(t, tx, `INSERT INTO effects DEFAULT VALUES`)
			exec(t, tx, `ROLLBACK TO work`)
			lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: job, Action: queue.Retry, Err: errors.New("boom")})
			if err != nil || len(lost) != 0 {
				t.Fatalf("Settle: lost %v, %v; want neither", lost, err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'dead' AND attempts = 2 AND last_error = 'boom'`); n != 1 {
			t.Errorf("%d jobs are dead after two attempts, want 1", n)
		}
		if n := value[int](t, db, `SELECT count(*) FROM effects`); n != 0 {
			t.Errorf("%d effects, want 0", n)
		}
	}
}

// TestClaimTxSavepoint: a claim that a savepoint undoes does not count.
func TestClaimTxSavepoint(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(1)...)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, `SAVEPOINT claim`)
	job, err := q.ClaimTx(t.Context(), tx, request(1))
	if err != nil || job == nil {
		t.Fatalf("ClaimTx: %v, %v", job, err)
	}
	exec(t, tx, `ROLLBACK TO claim`)
	for _, action := range []queue.OutcomeAction{queue.Done, queue.Retry} {
		if lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: job, Action: action}); err != nil || len(lost) != 1 {
			t.Errorf("Settle %v: lost %v, %v; want the job lost", action, lost, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, q, 1); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("claimed %v, want the job at its first attempt", got)
	}
}

// TestClaimTxNotKept: if completed jobs are not kept, the next Prune removes what a commit has
// completed.
func TestClaimTxNotKept(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: -1}})
	enqueue(t, q, jobs(1)...)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if job, err := q.ClaimTx(t.Context(), tx, request(1)); err != nil || job == nil {
		t.Fatalf("ClaimTx: %v, %v", job, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := q.Prune(t.Context()); err != nil || n != 1 {
		t.Errorf("Prune: %d, %v; want 1", n, err)
	}
}
