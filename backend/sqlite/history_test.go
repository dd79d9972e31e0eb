package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestHistoryHavingBadValues: no value in the column keeps a job from being settled, reclaimed or
// read, and no time in the row.
func TestHistoryHavingBadValues(t *testing.T) {
	for _, bad := range []string{``, `no json`, `5`, `{}`, `"x"`, `null`, `[]`, `[1, {"at": 5}, null, "x"]`, `[[[]]]`} {
		t.Run(bad, func(t *testing.T) {
			onEach(t, func(t *testing.T, driver string) { testBadHistory(t, driver, bad) })
		})
	}
}

func testBadHistory(t *testing.T, driver, bad string) {
	db, q := fresh(t, driver, sqlite.Options{})
	enqueue(t, q, jobs(3)...)
	held := claim(t, q, 3)
	execute(t, db, `UPDATE errand_jobs SET history = ?, started_at =
		CASE id % 3 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775807 END`, bad)
	execute(t, db, `UPDATE errand_jobs SET locked_until = 1 WHERE id = ?`, held[2].ID)
	settle(t, q, queue.Outcome{Job: held[0], Action: queue.Retry, Err: errors.New("boom")},
		queue.Outcome{Job: held[1], Action: queue.Dead, Err: errors.New("boom")})
	if back, err := q.Reclaim(t.Context(), 10); err != nil || len(back) != 1 {
		t.Errorf("reclaimed %d, error %v; want one", len(back), err)
	}
	for _, j := range held {
		r, _, err := q.Job(t.Context(), j.ID)
		if n := len(r.History); err != nil || n != 1 || r.History[0].Took < 0 || time.Since(r.History[0].At) > time.Minute {
			t.Errorf("history: got %+v, error %v; want one failure of now", r.History, err)
		}
	}
}
