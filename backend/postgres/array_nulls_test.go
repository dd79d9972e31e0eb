package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestArrayNullsOff: where NULL in the text of an array is a word, jobs of a batch that lack what
// others have still lack it.
func TestArrayNullsOff(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `ALTER DATABASE `+value[string](t, db, `SELECT current_database()`)+` SET array_nulls = off`)
	db.SetMaxIdleConns(0) // only new connections know
	if got := value[string](t, db, `SHOW array_nulls`); got != "off" {
		t.Fatalf("array_nulls is %s, want off", got)
	}
	db.SetMaxIdleConns(16)
	later := time.Now().Add(time.Hour)
	rich := func() *queue.Job {
		return &queue.Job{Kind: "rich", Headers: map[string]string{"a": "b"}, Delay: time.Hour, MaxAttempts: 3, Priority: 7}
	}
	for what, set := range map[string]func(*queue.Job){
		"plain":     func(*queue.Job) {},
		"at a time": func(j *queue.Job) { j.Delay, j.ScheduledAt = 0, later },
		"grouped":   func(j *queue.Job) { j.Group, j.Cost = "g", 2 },
		"ordered":   func(j *queue.Job) { j.Group, j.Ordered, j.Priority = "g", true, 0 },
		"keyed":     func(j *queue.Job) { j.Key, j.Group, j.Cost = "k1", "g", 2 },
		"replacing": func(j *queue.Job) { j.Key, j.OnDuplicate, j.MaxDelay = "k2", queue.Replace, 2*time.Hour },
		"a word":    func(j *queue.Job) { j.Key, j.Group, j.Delay = "NULL", "null", 0 },
	} {
		bare, other := &queue.Job{Kind: "bare"}, &queue.Job{Kind: "bare"}
		job := rich()
		set(job)
		if err := q.Enqueue(t.Context(), nil, bare, job, other); err != nil {
			t.Errorf("Enqueue, %s: %v", what, err)
			continue
		}
		for _, j := range []*queue.Job{bare, other} {
			wantBare(t, db, what, j.ID)
		}
		got := value[string](t, db, `SELECT concat_ws(' ', coalesce(job_key, '-'), coalesce(job_group, '-'), coalesce(cost, 1), max_attempts, headers->>'a')
			FROM errand.jobs WHERE id = $1`, job.ID)
		if want := fmt.Sprintf("%s %s %d 3 b", orDash(job.Key), orDash(job.Group), max(job.Cost, 1)); got != want {
			t.Errorf("%s: the job that has all is %q, want %q", what, got, want)
		}
	}
	bare := &queue.Job{Kind: "bare"}
	past := &queue.Job{Kind: "past", CreatedAt: later.Add(-2 * time.Hour), LastError: "NULL", Attempt: 1}
	if _, err := q.Receive(t.Context(), driver.Transfer{Source: "1", Job: bare}, driver.Transfer{Source: "2", Job: past}); err != nil {
		t.Fatal(err)
	}
	wantBare(t, db, "received", bare.ID)
	if got := value[string](t, db, `SELECT last_error FROM errand.jobs WHERE id = $1`, past.ID); got != "NULL" {
		t.Errorf("received: last error %q, want NULL as a text", got)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// wantBare checks that the job has nothing that is optional.
func wantBare(t *testing.T, db queue.DB, what string, id int64) {
	t.Helper()
	const query = `SELECT job_key IS NULL AND job_group IS NULL AND ordered IS NULL AND cost IS NULL AND headers IS NULL
		AND last_error IS NULL AND max_attempts = 5 AND priority = 0 AND isfinite(created_at)
		AND scheduled_at BETWEEN now() - interval '1 minute' AND now() FROM errand.jobs WHERE id = $1`
	if !value[bool](t, db, query, id) {
		t.Errorf("%s: job %d has what it was not given: %s", what, id, value[string](t, db, `SELECT j::text FROM errand.jobs j WHERE id = $1`, id))
	}
}
