package postgres_test

import (
	"database/sql"
	"errors"
	"slices"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// lockRow keeps a job's row locked until the transaction ends.
func lockRow(t *testing.T, db *sql.DB, id int64) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, id)
	return tx
}

// TestSettleLocksInOrder: a call that waits for a row has locked none with a higher id, whatever
// the outcomes are. Otherwise two calls that settle the same jobs would deadlock, and their
// callers' transactions would fail.
func TestSettleLocksInOrder(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(2)...)
	held := claim(t, q, 2)
	tx := lockRow(t, db, held[0].ID)
	settled := make(chan error, 1)
	go func() {
		_, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0], Action: queue.Retry}, queue.Outcome{Job: held[1], Action: queue.Done})
		settled <- err
	}()
	eventually(t, "Settle waits", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) == 1
	})
	if got := value[int](t, db, `SELECT count(*) FROM (SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE SKIP LOCKED) AS free`, held[1].ID); got != 1 {
		t.Error("Settle waits for a job and has locked one of a higher id")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, db, `SELECT string_agg(status::text, ' ' ORDER BY id) FROM errand.jobs`); got != "pending completed" {
		t.Errorf("got %s, want pending completed", got)
	}
}

// TestSettleWaits has a batch wait for a row for longer than its quick statement does.
func TestSettleWaits(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]queue.Retention{"kept": {}, "dropped": {Completed: -1}} {
		t.Run(name, func(t *testing.T) {
			db, q := fresh(t, postgres.Options{Retention: retention})
			enqueue(t, q, jobs(2)...)
			held := claim(t, q, 2)
			tx := lockRow(t, db, held[1].ID)
			settled := make(chan error, 1)
			go func() {
				lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0], Action: queue.Done}, queue.Outcome{Job: held[1], Action: queue.Done})
				if len(lost) > 0 {
					t.Errorf("%d jobs are lost, want none", len(lost))
				}
				settled <- err
			}()
			eventually(t, "the statement that locks in order waits", func() bool {
				return value[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
					AND query LIKE '-- Records outcomes:%' AND pid <> pg_backend_pid()`) == 1
			})
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-settled; err != nil {
				t.Fatal(err)
			}
			if left := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status NOT IN ('completed')`); left != 0 {
				t.Errorf("%d jobs are not done", left)
			}
		})
	}
}

// TestSettlePastLocked: a job that a transaction has locked for long holds up no other job of its
// batch. Settle says which jobs are left.
func TestSettlePastLocked(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, action := range []queue.OutcomeAction{queue.Done, queue.Retry} {
		db, q := fresh(t, postgres.Options{})
		enqueue(t, q, jobs(3)...)
		held := claim(t, q, 3)
		lockRow(t, db, held[1].ID)
		stale := *held[2]
		stale.Fence++
		lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: action}, queue.Outcome{Job: &stale})
		var locked *driver.LockedError
		if !errors.As(err, &locked) || len(locked.Jobs) != 1 || locked.Jobs[0] != held[1] {
			t.Fatalf("Settle beside a locked job: error %v, want a LockedError with that job", err)
		}
		if len(lost) != 1 || lost[0] != &stale {
			t.Errorf("Settle beside a locked job: %d jobs lost, want the stale one", len(lost))
		}
		if got := value[string](t, db, `SELECT string_agg(status::text, ' ' ORDER BY id) FROM errand.jobs`); got != "completed running running" {
			t.Errorf("got %s, want completed running running", got)
		}
	}
}

// TestSettleLocked: if a transaction has locked a job of each of two workers, Settle records the
// others' outcomes and names both.
func TestSettleLocked(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(4)...)
	var outcomes []queue.Outcome
	for _, worker := range []string{"a", "b"} {
		req := request(2)
		req.Worker = worker
		for _, job := range wantClaimed(t, q, req, 2) {
			outcomes = append(outcomes, queue.Outcome{Job: job})
		}
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, o := range []queue.Outcome{outcomes[0], outcomes[2]} {
		exec(t, tx, "SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE", o.Job.ID)
	}
	_, err = q.Settle(t.Context(), nil, outcomes...)
	locked, ok := errors.AsType[*driver.LockedError](err)
	if !ok || len(locked.Jobs) != 2 || !slices.Contains(locked.Jobs, outcomes[0].Job) || !slices.Contains(locked.Jobs, outcomes[2].Job) {
		t.Errorf("Settle beside the transaction: %v, want that it names both locked jobs", err)
	}
	if n := value[int](t, db, "SELECT count(*) FROM errand.jobs WHERE status = 'completed'"); n != 2 {
		t.Errorf("%d jobs are completed, want 2", n)
	}
}
