package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// backlogs returns the age of each queue's backlog, in whole hours.
func backlogs(t *testing.T, q *postgres.Backend) map[string]int {
	t.Helper()
	list, err := q.Backlogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hours := make(map[string]int)
	for _, b := range list {
		hours[b.Queue] = int(b.Age / time.Hour)
	}
	return hours
}

// waits writes a job that became due so many hours ago.
func waits(t *testing.T, db queue.DB, name string, priority, hours int) {
	t.Helper()
	exec(t, db, `INSERT INTO errand.jobs (queue, priority, scheduled_at) VALUES ($1, $2, now() - $3 * interval '1 hour')`, name, priority, hours)
}

// TestBacklogsOfManyPriorities: a queue in which nearly every job has its own priority costs a
// bounded time, and hides no other queue.
func TestBacklogsOfManyPriorities(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `INSERT INTO errand.jobs (queue, priority) SELECT 'many', i FROM generate_series(1, 2000) AS i`)
	waits(t, db, "many", 1000, 3)
	waits(t, db, "many", 1001, 5) // beyond the thousandth
	waits(t, db, "other", 7, 2)
	waits(t, db, "other", 8, 6)
	want := map[string]int{"many": 3, "other": 6}
	if got := backlogs(t, q); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ages in hours: got %v, want %v", got, want)
	}
}

func TestBacklogsOfManyQueues(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `INSERT INTO errand.jobs (queue) SELECT 'q' || i FROM generate_series(10001, 20001) AS i`)
	got := backlogs(t, q)
	if _, last := got["q20000"]; len(got) != 10_000 || !last {
		t.Errorf("queues: got %d, q20000 among them: %v; want the first 10,000", len(got), last)
	}
}

// TestBacklogsOfInfiniteTimes: infinite due times, which SQL may write if the table has no checks,
// do not make Backlogs fail.
func TestBacklogsOfInfiniteTimes(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	dropChecks(t, db)
	exec(t, db, `INSERT INTO errand.jobs (queue, scheduled_at) VALUES ('always', '-infinity'), ('never', 'infinity')`)
	waits(t, db, "usual", 0, 4)
	got := backlogs(t, q)
	if _, never := got["never"]; never || got["usual"] != 4 || got["always"] < 24*365*50 {
		t.Errorf("ages in hours: got %v, want 4 of usual, more than 50 years of always, and nothing of never", got)
	}
}
