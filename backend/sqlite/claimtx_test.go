package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestClaimTxFailure: work that fails is undone with a savepoint, and its failure is recorded in
// the same transaction, whether completed jobs are kept or not.
func TestClaimTxFailure(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		for _, keep := range []time.Duration{0, -1} {
			db, q := fresh(t, driver, sqlite.Options{Retention: queue.Retention{Completed: keep}})
			execute(t, db, `CREATE TABLE effects (what)`)
			enqueue(t, q, &queue.Job{Kind: "test", MaxAttempts: 2})
			for attempt := 1; attempt <= 2; attempt++ {
				tx := begin(t, db)
				job, err := q.ClaimTx(t.Context(), tx, request(1))
				if err != nil || job == nil || job.Attempt != attempt {
					t.Fatalf("ClaimTx: %+v, %v; want attempt %d", job, err, attempt)
				}
				execute(t, tx, `SAVEPOINT work`)
				execute(t, tx, `INSERT INTO effects VALUES (1)`)
				execute(t, tx, `ROLLBACK TO work`)
				lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: job, Action: queue.Retry, Err: errors.New("boom")})
				if err != nil || len(lost) != 0 {
					t.Fatalf("Settle: lost %v, %v; want neither", lost, err)
				}
				commit(t, tx)
			}
			if n := value[int](t, db, `SELECT count(*) FROM errand_jobs WHERE status = 'dead' AND attempts = 2 AND last_error = 'boom'`); n != 1 {
				t.Errorf("%d jobs are dead after two attempts, want 1", n)
			}
			if n := value[int](t, db, `SELECT count(*) FROM effects`); n != 0 {
				t.Errorf("%d effects, want 0", n)
			}
		}
	})
}

// TestClaimTxSavepoint: a claim that is undone by a savepoint is none any more.
func TestClaimTxSavepoint(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		enqueue(t, q, jobs(1)...)
		tx := begin(t, db)
		execute(t, tx, `SAVEPOINT claim`)
		job, err := q.ClaimTx(t.Context(), tx, request(1))
		if err != nil || job == nil {
			t.Fatalf("ClaimTx: %v, %v", job, err)
		}
		execute(t, tx, `ROLLBACK TO claim`)
		for _, action := range []queue.OutcomeAction{queue.Done, queue.Retry} {
			if lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: job, Action: action}); err != nil || len(lost) != 1 {
				t.Errorf("Settle %v: lost %v, %v; want the job lost", action, lost, err)
			}
		}
		commit(t, tx)
		if got := claim(t, q, 1); len(got) != 1 || got[0].Attempt != 1 {
			t.Errorf("claimed %v, want the job at its first attempt", got)
		}
	})
}

// TestClaimTxNotKept: where completed jobs are not kept, the next Prune removes what a commit has
// completed.
func TestClaimTxNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{Retention: queue.Retention{Completed: -1}})
		enqueue(t, q, jobs(1)...)
		tx := begin(t, db)
		if job, err := q.ClaimTx(t.Context(), tx, request(1)); err != nil || job == nil {
			t.Fatalf("ClaimTx: %v, %v", job, err)
		}
		commit(t, tx)
		if n, _, err := q.Prune(t.Context()); err != nil || n != 1 {
			t.Errorf("Prune: %d, %v; want 1", n, err)
		}
	})
}

// TestClaimTxTwoPrefixes: one transaction claims jobs of the same number from two queues of a file.
func TestClaimTxTwoPrefixes(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, first := fresh(t, driver, sqlite.Options{})
		migrate(t, db, sqlite.Options{Prefix: "other_"})
		second := backend(t, db, sqlite.Options{Prefix: "other_"})
		enqueue(t, first, jobs(1)...)
		enqueue(t, second, jobs(1)...)
		held := claim(t, first, 1) // so that the fences differ
		if _, err := first.Settle(t.Context(), nil, queue.Outcome{Job: held[0], Action: queue.Release}); err != nil {
			t.Fatal(err)
		}
		tx := begin(t, db)
		var claimed []*queue.Job
		for _, q := range []*sqlite.Backend{first, second} {
			job, err := q.ClaimTx(t.Context(), tx, request(1))
			if err != nil || job == nil {
				t.Fatalf("ClaimTx: %v, %v", job, err)
			}
			claimed = append(claimed, job)
		}
		for i, q := range []*sqlite.Backend{first, second} {
			lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: claimed[i], Action: queue.Retry})
			if err != nil || len(lost) != 0 {
				t.Errorf("Settle in queue %d: lost %v, %v; want neither", i+1, lost, err)
			}
		}
		commit(t, tx)
	})
}
