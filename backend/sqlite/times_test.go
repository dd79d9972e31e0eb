package sqlite_test

import (
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestTimesOfOlderProgram: a run that a program without the columns has claimed, and extends, began
// at updated_at, and a job that it has completed ended there.
func TestTimesOfOlderProgram(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		enqueue(t, q, jobs(1)...)
		held := claim(t, q, 1)
		execute(t, db, `UPDATE errand_jobs SET started_at = NULL, updated_at = updated_at - 120000000`)
		if lost, _, err := q.Extend(t.Context(), time.Minute, held...); err != nil || len(lost) > 0 {
			t.Fatalf("Extend: lost %v, error %v", lost, err)
		}
		page, _, err := q.Jobs(t.Context(), queue.Filter{RunningFor: time.Minute})
		if err != nil || len(page) != 1 || !page[0].StartedAt.Equal(page[0].UpdatedAt) {
			t.Errorf("running for a minute: got %+v, error %v; want the job, which began when it was updated", page, err)
		}
		if lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}); err != nil || len(lost) > 0 {
			t.Fatalf("Settle: lost %v, error %v", lost, err)
		}
		execute(t, db, `UPDATE errand_jobs SET started_at = NULL, finished_at = NULL, updated_at = updated_at - 1`)
		r, _, err := q.Job(t.Context(), held[0].ID)
		if err != nil || !r.StartedAt.IsZero() || !r.FinishedAt.Equal(r.UpdatedAt) {
			t.Errorf("completed by an older program: got %+v, error %v; want no start, and the update as the end", r, err)
		}
	})
}

// TestTimesHavingBadValues: no number in the columns makes a list fail, or a redrive.
func TestTimesHavingBadValues(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	for _, n := range []string{"9223372036854775807", "-9223372036854775807"} {
		job := jobs(1)[0]
		enqueue(t, q, job)
		if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: claim(t, q, 1)[0], Action: queue.Dead}); err != nil {
			t.Fatal(err)
		}
		execute(t, db, strings.ReplaceAll(`UPDATE errand_jobs SET started_at = N, finished_at = N, redriven_at = N, redrives = N`, "N", n))
		if _, _, err := q.Jobs(t.Context(), queue.Filter{}); err != nil {
			t.Errorf("Jobs beside %s: %v", n, err)
		}
		if redriven, err := q.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{job.ID}}); err != nil || redriven != 1 {
			t.Errorf("Redrive beside %s: %d, %v", n, redriven, err)
		}
		if r, _, err := q.Job(t.Context(), job.ID); err != nil || r.Redrives < 1 || time.Since(r.RedrivenAt) > time.Minute {
			t.Errorf("Redrive beside %s: got %+v, error %v", n, r, err)
		}
		if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: claim(t, q, 1)[0]}); err != nil {
			t.Fatal(err)
		}
	}
}
