package sqlite_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestTriggersOfInserts: triggers that the application has on inserts fire when jobs are enqueued,
// and at nothing else.
func TestTriggersOfInserts(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		execute(t, db, `CREATE TABLE fired (at TEXT NOT NULL, job INTEGER, kind TEXT)`)
		for _, at := range []string{"BEFORE", "AFTER"} {
			execute(t, db, `CREATE TRIGGER fires_`+at+` `+at+` INSERT ON errand_jobs BEGIN
				INSERT INTO fired VALUES ('`+at+`', NEW.id, NEW.kind);
			END`)
		}
		enqueue(t, q, jobs(6)...)
		held := claim(t, q, 6)
		outcomes := make([]queue.Outcome, 5)
		for i, action := range []queue.OutcomeAction{queue.Done, queue.Retry, queue.Release, queue.Dead, queue.Dead} {
			outcomes[i] = queue.Outcome{Job: held[i], Action: action}
		}
		if lost, err := q.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) > 0 {
			t.Fatalf("Settle: lost %v, %v, want none", lost, err)
		}
		if _, _, err := q.Extend(t.Context(), time.Millisecond, held[5]); err != nil {
			t.Fatal(err)
		}
		for reclaimed := 0; reclaimed == 0; {
			expired, err := q.Reclaim(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			reclaimed = len(expired)
		}
		if _, err := q.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{held[3].ID}}); err != nil {
			t.Fatal(err)
		}
		pruneAll(t, q)
		if got := value[int](t, db, `SELECT count(*) FROM fired WHERE kind = 'test'`); got != 12 {
			t.Errorf("triggers fired %d times for jobs that were enqueued, want twice for each of 6", got)
		}
		if got := value[int](t, db, `SELECT count(*) FROM fired WHERE kind <> 'test'`); got != 0 {
			t.Errorf("triggers fired %d times for nothing, want 0", got)
		}
	})
}
