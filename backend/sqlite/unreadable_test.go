package sqlite_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// badRows are values that SQL may write where errand would not.
var badRows = []struct {
	column string
	value  any
}{
	{"attempts", int64(math.MaxInt64)},
	{"attempts", int64(math.MinInt64)},
	{"max_attempts", int64(math.MaxInt64)},
	{"priority", int64(math.MinInt64 + 1)},
	{"created_at", int64(math.MaxInt64)},
	{"created_at", int64(math.MinInt64)},
	{"updated_at", int64(math.MaxInt64)},
	{"scheduled_at", int64(math.MinInt64)},
	{"payload", "{not JSON"},
	{"payload", "\xff"},
	{"headers", "[1, 2]"},
	{"headers", "{not JSON"},
	{"headers", `{"a": 1, "b": "x"}`},
}

// TestBadRows: values that errand would not have written keep no job from being claimed and
// settled, and an Inspector shows them.
func TestBadRows(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		enqueue(t, q, jobs(100)...)
		for _, row := range badRows {
			execute(t, db, `INSERT INTO errand_jobs (queue, kind, `+row.column+`) VALUES ('default', 'test', ?)`, row.value)
		}
		if _, err := q.Backlogs(t.Context()); err != nil {
			t.Errorf("Backlogs: %v", err)
		}
		want := 100 + len(badRows)
		held := claim(t, q, 1000)
		if len(held) != want {
			t.Fatalf("claimed %d of %d jobs", len(held), want)
		}
		for _, job := range held {
			if _, err := json.Marshal([]any{job.CreatedAt, job.ScheduledAt}); err != nil {
				t.Errorf("job %d: %v", job.ID, err)
			}
		}
		outcomes := make([]queue.Outcome, len(held))
		for i, job := range held {
			outcomes[i] = queue.Outcome{Job: job, Action: queue.OutcomeAction(i % 4)}
		}
		if lost, err := q.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) != 0 {
			t.Fatalf("Settle: %d lost, error %v", len(lost), err)
		}
		if list, _, err := q.Jobs(t.Context(), queue.Filter{Limit: 1000}); err != nil || len(list) != want {
			t.Errorf("Jobs: got %d, error %v; want %d", len(list), err, want)
		}
	})
}
