package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestBacklogsOfManyPriorities: a queue in which nearly each job has a priority of its own costs a
// bounded time, and hides no other queue.
func TestBacklogsOfManyPriorities(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	execute(t, db, `WITH RECURSIVE series (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM series WHERE i < 2000)
		INSERT INTO errand_jobs (queue, priority) SELECT 'many', i FROM series`)
	waits := func(name string, priority, hours int) {
		t.Helper()
		execute(t, db, `INSERT INTO errand_jobs (queue, priority, scheduled_at) VALUES (?1, ?2, (unixepoch() - ?3 * 3600) * 1000000)`, name, priority, hours)
	}
	waits("many", 1000, 3)
	waits("many", 1001, 5) // beyond the thousandth
	waits("other", 7, 2)
	waits("other", 8, 6)
	list, err := q.Backlogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, b := range list {
		got[b.Queue] = int(b.Age / time.Hour)
	}
	if want := map[string]int{"many": 3, "other": 6}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ages in hours: got %v, want %v", got, want)
	}
}

// TestSleepOfManyPriorities: the next job is found behind others of many priorities that are due.
func TestSleepOfManyPriorities(t *testing.T) {
	_, q := fresh(t, drivers[0], sqlite.Options{})
	var list []*queue.Job
	for i := range 300 {
		list = append(list, &queue.Job{Kind: "test", Priority: int32(i)}, &queue.Job{Kind: "test", Priority: int32(i), Delay: time.Duration(1000-i) * time.Minute})
	}
	enqueue(t, q, list...)
	next, err := q.Sleep(t.Context(), "w", []string{"none", queue.DefaultQueue})
	if err != nil || next > 701*time.Minute || next < 700*time.Minute {
		t.Errorf("Sleep: next %v, %v; want the job that is due in 701 minutes", next, err)
	}
}
