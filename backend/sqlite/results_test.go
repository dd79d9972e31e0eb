package sqlite_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// settleWithOutputs runs n jobs, which have progress and an output.
func settleWithOutputs(t *testing.T, q *sqlite.Backend, n int) {
	t.Helper()
	enqueue(t, q, jobs(n)...)
	var outcomes []queue.Outcome
	var progress []queue.Progress
	for _, j := range claim(t, q, n) {
		outcomes = append(outcomes, queue.Outcome{Job: j, Output: json.RawMessage(`1`)})
		progress = append(progress, queue.Progress{Job: j, Value: json.RawMessage(`1`)})
	}
	if err := q.KeepProgress(t.Context(), progress...); err != nil {
		t.Fatal(err)
	}
	settle(t, q, outcomes...)
}

// TestPruneRemovesResults: a result goes with its job, and so does that of a job that SQL deletes.
func TestPruneRemovesResults(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{Retention: queue.Retention{Completed: time.Hour}})
		settleWithOutputs(t, q, 30)
		pruneAll(t, q)
		if n := value[int](t, db, `SELECT count(*) FROM errand_results`); n != 30 {
			t.Errorf("%d results before their retention is over, want 30", n)
		}
		execute(t, db, `UPDATE errand_jobs SET created_at = created_at - 7200000000, updated_at = updated_at - 7200000000 WHERE id % 3 = 0`)
		execute(t, db, `DELETE FROM errand_jobs WHERE id % 3 = 1`)
		if removed := pruneAll(t, q); removed != 10 {
			t.Errorf("pruned %d jobs, want 10", removed)
		}
		if jobs, results := value[int](t, db, `SELECT count(*) FROM errand_jobs`), value[int](t, db, `SELECT count(*) FROM errand_results`); jobs != 10 || results != 10 {
			t.Errorf("%d jobs and %d results are left, want 10 of each", jobs, results)
		}
	})
}

// TestResultsNotKept: where completed jobs are not kept, neither is a result.
func TestResultsNotKept(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{Retention: queue.Retention{Completed: -1}})
	settleWithOutputs(t, q, 3)
	if n := value[int](t, db, `SELECT (SELECT count(*) FROM errand_jobs) + (SELECT count(*) FROM errand_results)`); n != 0 {
		t.Errorf("%d jobs and results are left, want none", n)
	}
}
