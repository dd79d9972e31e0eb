package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestKeyTwiceInBatch: the statement itself tells the id of the job that holds a key since earlier
// in the same batch. If Enqueue had to ask again, that job might have ended by then, and both jobs
// would run.
func TestKeyTwiceInBatch(t *testing.T) {
	t.Parallel()
	db, _ := fresh(t, postgres.Options{})
	before := value[int64](t, db, `INSERT INTO errand.jobs (kind, job_key) VALUES ('test', 'old') RETURNING id`)
	got := value[string](t, db, `
		SELECT string_agg(CASE WHEN duplicate THEN (live_id - $1)::text ELSE 'new' END, ' ' ORDER BY ord)
		FROM errand.insert_keyed('{default}', '{test}', E'1\x1e2\x1e3\x1e4\x1e5\x1e6', NULL, NULL, NULL, NULL,
			'{a, NULL, a, old, NULL, a}', NULL) WITH ORDINALITY AS k (id, duplicate, live_id, ord)`, before)
	if want := "new new 1 0 new 1"; got != want {
		t.Errorf("jobs with the keys a, none, a, old, none, a: got %s, want %s (ids count from the job of key old)", got, want)
	}
}

// TestReplaceDoesNotDeadlock: calls that replace the same keys in different orders, in transactions
// of their callers, succeed beside claims and settlings of these jobs.
func TestReplaceDoesNotDeadlock(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	const keys = 10
	db, q := fresh(t, postgres.Options{})
	replace := func() error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		batch := make([]*queue.Job, 0, keys)
		for _, k := range rand.Perm(keys) {
			batch = append(batch, &queue.Job{Kind: "test", Key: fmt.Sprint(k), OnDuplicate: queue.Replace})
		}
		if err := q.Enqueue(t.Context(), tx, batch...); err != nil {
			return err
		}
		return tx.Commit()
	}
	var replacers, claimers sync.WaitGroup
	var done atomic.Bool
	for range 8 {
		replacers.Go(func() {
			for range 10 {
				if err := replace(); err != nil {
					t.Errorf("Enqueue with Replace of %d keys in random order beside others: %v", keys, err)
				}
			}
		})
		claimers.Go(func() {
			for !done.Load() {
				held := claim(t, q, 5)
				// Without a pause empty claims take most of the CPU time.
				if len(held) == 0 {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				outcomes := make([]queue.Outcome, len(held))
				for i, j := range held {
					outcomes[i] = queue.Outcome{Job: j, Action: queue.OutcomeAction(rand.IntN(2))}
				}
				var locked *driver.LockedError
				if lost, err := q.Settle(t.Context(), nil, outcomes...); len(lost) > 0 || err != nil && !errors.As(err, &locked) {
					t.Errorf("Settle beside calls that replace: %d lost, error %v", len(lost), err)
				}
			}
		})
	}
	replacers.Wait()
	done.Store(true)
	claimers.Wait()
}

// TestReplaceHeld: a held job is replaced, and stays held.
func TestReplaceHeld(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	first := &queue.Job{Kind: "test", Key: "a"}
	enqueue(t, q, first)
	exec(t, db, `UPDATE errand.jobs SET status = 'held'`)
	second := &queue.Job{Kind: "other", Key: "a", OnDuplicate: queue.Replace}
	enqueue(t, q, second)
	if got := value[string](t, db, `SELECT string_agg(kind || ' ' || status, ', ') FROM errand.jobs`); got != "other held" || !second.Replaced || second.ID != first.ID {
		t.Errorf("replacing a held job: got %s, Replaced %v, ID %d; want other held, true, %d", got, second.Replaced, second.ID, first.ID)
	}
}

// TestReplaceOddTimes: no time in a hand-written row makes a call fail.
func TestReplaceOddTimes(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	for _, created := range []string{"infinity", "-infinity", "294276-12-31Z", "4713-01-01Z BC"} {
		exec(t, db, `INSERT INTO errand.jobs (kind, job_key, created_at, attempts) VALUES ('test', 'a', $1, 0)`, created)
		job := &queue.Job{Kind: "test", Key: "a", OnDuplicate: queue.Replace, Delay: 1, MaxDelay: 100 * 365 * 24 * 3600e9}
		if err := q.Enqueue(t.Context(), nil, job); err != nil || !job.Replaced {
			t.Errorf("replacing a job created at %s: Replaced %v, error %v", created, job.Replaced, err)
		}
		exec(t, db, `DELETE FROM errand.jobs`)
	}
}
