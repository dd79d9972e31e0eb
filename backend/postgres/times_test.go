package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// recordOf returns the job's record.
func recordOf(t *testing.T, q *postgres.Backend, id int64) queue.Record {
	t.Helper()
	r, ok, err := q.Job(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("Job(%d): ok %v, error %v", id, ok, err)
	}
	return r
}

// wantRunningFor checks which jobs have been running for a minute.
func wantRunningFor(t *testing.T, q *postgres.Backend, when string, want ...int64) {
	t.Helper()
	page, _, err := q.Jobs(t.Context(), queue.Filter{RunningFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, r := range page {
		got = append(got, r.ID)
		if time.Since(r.StartedAt) < time.Minute {
			t.Errorf("%s: job %d is listed with StartedAt %v", when, r.ID, r.StartedAt)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got jobs %d as running for a minute, want %d", when, got, want)
	}
}

// TestTimesOfGuideWorker: a record has the times of runs by the guide's statements, which know no
// started_at and finished_at. What errand wrote there in an earlier life of the job does not show.
func TestTimesOfGuideWorker(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"new": "SELECT 1",
		"once dead": `UPDATE jobs SET started_at = now() - interval '3 days', finished_at = now() - interval '2 days',
			scheduled_at = now() - interval '1 h'`,
		"once stale": `UPDATE jobs SET started_at = now() - interval '10 min', locked_until = now() - interval '9 min',
			scheduled_at = now() - interval '1 h', fence = 7`,
	} {
		t.Run(name, func(t *testing.T) {
			db, q := guideDB(t)
			list := jobs(2)
			list[1].MaxAttempts = 1
			enqueue(t, q, list...)
			exec(t, db, before)
			if ids, err := dequeued(t.Context(), db, 2, "default", "w"); err != nil || len(ids) != 2 {
				t.Fatalf("dequeue: %v, %v", ids, err)
			}
			wantRunningFor(t, q, "just claimed")
			exec(t, db, "UPDATE jobs SET updated_at = updated_at - interval '2 min', locked_at = now()") // it ran for two minutes, and sets locked_at now and then
			wantRunningFor(t, q, "two minutes later", list[1].ID, list[0].ID)
			began := recordOf(t, q, list[0].ID).StartedAt
			exec(t, db, guide["complete"][0], list[0].ID)
			exec(t, db, guide["fail"][0], list[1].ID, "boom", "60")
			for i, status := range []queue.Status{queue.StatusCompleted, queue.StatusDead} {
				r := recordOf(t, q, list[i].ID)
				if r.Status != status || !r.FinishedAt.Equal(r.UpdatedAt) || !r.FinishedAt.After(began) {
					t.Errorf("%s: got a record that is %s, finished at %v and updated at %v, after a run that began at %v; want it to end with its update",
						status, r.Status, r.FinishedAt, r.UpdatedAt, began)
				}
			}
		})
	}
}

// TestTimesOfOlderProgram: a run that a program without the columns has claimed, and extends, began
// at updated_at. With a trigger that sets updated_at at every change, started_at still tells.
func TestTimesOfOlderProgram(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(1)...)
	held := claim(t, q, 1)
	exec(t, db, `UPDATE errand.jobs SET started_at = NULL, updated_at = updated_at - interval '2 min'`)
	if lost, _, err := q.Extend(t.Context(), time.Minute, held...); err != nil || len(lost) > 0 {
		t.Fatalf("Extend: lost %v, error %v", lost, err)
	}
	wantRunningFor(t, q, "claimed by an older program", held[0].ID)
	exec(t, db, `UPDATE errand.jobs SET started_at = updated_at, updated_at = now()`)
	wantRunningFor(t, q, "with a trigger", held[0].ID)
	settle(t, q, queue.Outcome{Job: held[0]})
	exec(t, db, `UPDATE errand.jobs SET finished_at = NULL, started_at = NULL, updated_at = now() - interval '1 h'`)
	if r := recordOf(t, q, held[0].ID); !r.FinishedAt.Equal(r.UpdatedAt) || !r.StartedAt.IsZero() {
		t.Errorf("completed by an older program: got started %v, finished %v, updated %v; want no start, and the update as the end",
			r.StartedAt, r.FinishedAt, r.UpdatedAt)
	}
}

// TestTimesHavingBadValues: no value in the columns makes a list fail, or a redrive.
func TestTimesHavingBadValues(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	for _, c := range []struct{ at, n string }{{"'infinity'", "2147483647"}, {"'-infinity'", "-2147483648"}} {
		job := jobs(1)[0]
		enqueue(t, q, job)
		settle(t, q, queue.Outcome{Job: claim(t, q, 1)[0], Action: queue.Dead})
		exec(t, db, `UPDATE errand.jobs SET started_at = `+c.at+`, finished_at = `+c.at+`, redriven_at = `+c.at+`, redrives = `+c.n)
		recordOf(t, q, job.ID)
		for _, f := range []queue.Filter{{}, {Status: queue.StatusDead}, {RunningFor: time.Hour}} {
			if _, _, err := q.Jobs(t.Context(), f); err != nil {
				t.Errorf("Jobs(%+v) beside %s: %v", f, c.at, err)
			}
		}
		if n, err := q.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{job.ID}}); err != nil || n != 1 {
			t.Errorf("Redrive beside %s: %d, %v", c.n, n, err)
		}
		if r := recordOf(t, q, job.ID); r.Redrives < 1 || time.Since(r.RedrivenAt) > time.Minute {
			t.Errorf("Redrive beside %s: got %d redrives, the last at %v", c.n, r.Redrives, r.RedrivenAt)
		}
		settle(t, q, queue.Outcome{Job: claim(t, q, 1)[0]})
	}
}

// TestArchiveColumns: jobs_archive has the columns of jobs, in the same order.
func TestArchiveColumns(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	columns := `SELECT string_agg(attname || ' ' || atttypid::regtype, ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped`
	table, archive := value[string](t, db, columns, "errand.jobs"), value[string](t, db, columns, "errand.jobs_archive")
	if table != archive {
		t.Errorf("columns of jobs_archive\n     %s\nwant %s", archive, table)
	}
}
