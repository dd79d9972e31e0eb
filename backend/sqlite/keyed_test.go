package sqlite_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestReplaceHeld: a held job is replaced, and stays held. No time in a hand-written row makes the
// call fail.
func TestReplaceHeld(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		first := &queue.Job{Kind: "test", Key: "a"}
		if err := q.Enqueue(t.Context(), nil, first); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), `UPDATE errand_jobs SET status = 'held', created_at = 9223372036854775807`); err != nil {
			t.Fatal(err)
		}
		const years = 365 * 24 * time.Hour
		second := &queue.Job{Kind: "other", Key: "a", OnDuplicate: queue.Replace, Delay: 1, MaxDelay: 100 * years}
		if err := q.Enqueue(t.Context(), nil, second); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := db.QueryRowContext(t.Context(), `SELECT group_concat(kind || ' ' || status) FROM errand_jobs`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != "other held" || !second.Replaced || second.ID != first.ID {
			t.Errorf("replacing a held job: got %s, Replaced %v, ID %d; want other held, true, %d", got, second.Replaced, second.ID, first.ID)
		}
	})
}
