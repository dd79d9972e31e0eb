package postgres_test

import (
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestKeyTwiceInBatch: the statement itself tells the id of the job that holds a key since earlier
// in the same batch. If Enqueue had to ask again, that job might have ended by then, and both jobs
// would run.
func TestKeyTwiceInBatch(t *testing.T) {
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

// TestReplaceBesideSettle: a call that waits for a running job, whose key it takes, has locked no
// job with a higher id, whatever the keys are. Settle locks jobs in that order, too, so the two do
// not deadlock.
func TestReplaceBesideSettle(t *testing.T) {
	db, q := fresh(t, postgres.Options{})
	running := jobs(2)
	running[0].Key, running[1].Key = "b", "a"
	enqueue(t, q, running...)
	held := claim(t, q, 2)
	tx := lockRow(t, db, running[0].ID)
	replaced := make(chan error, 1)
	go func() {
		replaced <- q.Enqueue(t.Context(), nil,
			&queue.Job{Kind: "test", Key: "a", OnDuplicate: queue.Replace}, &queue.Job{Kind: "test", Key: "b", OnDuplicate: queue.Replace})
	}()
	eventually(t, "Enqueue waits", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) == 1
	})
	if got := value[int](t, db, `SELECT count(*) FROM (SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE SKIP LOCKED) AS free`, running[1].ID); got != 1 {
		t.Error("Enqueue waits for a job and has locked one of a higher id")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-replaced; err != nil {
		t.Fatal(err)
	}
	if lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1]}); err != nil || len(lost) > 0 {
		t.Errorf("Settle: lost %d, error %v; want none", len(lost), err)
	}
}

// TestReplaceHeld: a held job is replaced, and stays held.
func TestReplaceHeld(t *testing.T) {
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
