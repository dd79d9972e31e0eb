package postgres_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// settleWithOutputs runs n jobs, which have progress and an output.
func settleWithOutputs(t *testing.T, q *postgres.Backend, n int) (held []*queue.Job) {
	t.Helper()
	enqueue(t, q, jobs(n)...)
	held = claim(t, q, n)
	var outcomes []queue.Outcome
	var progress []queue.Progress
	for _, j := range held {
		outcomes = append(outcomes, queue.Outcome{Job: j, Output: json.RawMessage(`1`)})
		progress = append(progress, queue.Progress{Job: j, Value: json.RawMessage(`1`)})
	}
	if err := q.KeepProgress(t.Context(), progress...); err != nil {
		t.Fatal(err)
	}
	settle(t, q, outcomes...)
	return held
}

// TestPruneRemovesResults: a result goes with its job, and so does that of a job that SQL deletes.
func TestPruneRemovesResults(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: time.Hour}})
	settleWithOutputs(t, q, 30)
	pruneAll(t, q)
	if n := count(t, db, "results"); n != 30 {
		t.Errorf("%d results before their retention is over, want 30", n)
	}
	exec(t, db, `UPDATE errand.jobs SET created_at = created_at - interval '2 h', updated_at = updated_at - interval '2 h' WHERE id % 3 = 0`)
	exec(t, db, `DELETE FROM errand.jobs WHERE id % 3 = 1`)
	if removed := pruneAll(t, q); removed != 10 {
		t.Errorf("pruned %d jobs, want 10", removed)
	}
	if jobs, results := count(t, db, "jobs"), count(t, db, "results"); jobs != 10 || results != 10 {
		t.Errorf("%d jobs and %d results are left, want 10 of each", jobs, results)
	}
}

// TestResultsNotKept: where completed jobs are not kept, neither is a result.
func TestResultsNotKept(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: -1}})
	held := settleWithOutputs(t, q, 3)
	if jobs, results := count(t, db, "jobs"), count(t, db, "results"); jobs != 0 || results != 0 {
		t.Errorf("%d jobs and %d results are left, want none", jobs, results)
	}
	if r, ok, err := q.Result(t.Context(), held[0].ID); ok || err != nil {
		t.Errorf("Result of a deleted job: got %+v, %v, error %v; want none", r, ok, err)
	}
}

// TestResultsCostNothing: no statement touches the table for jobs without output and progress.
func TestResultsCostNothing(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(10)...)
	for i, j := range claim(t, q, 10) {
		settle(t, q, queue.Outcome{Job: j, Action: queue.OutcomeAction(i % 4)})
	}
	if n := value[int](t, db, `SELECT pg_relation_size('errand.results')`); n != 0 {
		t.Errorf("the table has %d bytes, want 0", n)
	}
}

// TestLockedOutput: a job that a transaction has locked holds up no other job of its worker, with
// an output or without.
func TestLockedOutput(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(3)...)
	held := claim(t, q, 3)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, held[0].ID)
	output := json.RawMessage(`1`)
	_, err = q.Settle(t.Context(), nil, queue.Outcome{Job: held[0], Output: output}, queue.Outcome{Job: held[1], Output: output}, queue.Outcome{Job: held[2]})
	var locked *driver.LockedError
	if !errors.As(err, &locked) || len(locked.Jobs) != 1 || locked.Jobs[0] != held[0] {
		t.Fatalf("Settle beside a lock: got error %v, want a LockedError for the first job", err)
	}
	for _, j := range held[1:] {
		if r := recordOf(t, q, j.ID); r.Status != queue.StatusCompleted {
			t.Errorf("job %d beside a locked one: got %s, want completed", j.ID, r.Status)
		}
	}
	if n := count(t, db, "results"); n != 1 {
		t.Errorf("%d outputs, want 1", n)
	}
}
