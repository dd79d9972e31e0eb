package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestHistoryCostsNothing: no statement writes the column before a job has failed, and those that
// follow leave it as it is.
func TestHistoryCostsNothing(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(2)...)
	held := claim(t, q, 2)
	settle(t, q, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Release})
	if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE history IS NOT NULL`); n != 0 {
		t.Errorf("%d jobs that have not failed have a history, want none", n)
	}
	settle(t, q, queue.Outcome{Job: claim(t, q, 1)[0], Action: queue.Retry, Err: errors.New("boom")})
	before := value[string](t, db, `SELECT history::text FROM errand.jobs WHERE history IS NOT NULL`)
	settle(t, q, queue.Outcome{Job: claim(t, q, 1)[0], Action: queue.Release})
	settle(t, q, queue.Outcome{Job: claim(t, q, 1)[0]})
	if after := value[string](t, db, `SELECT history::text FROM errand.jobs WHERE history IS NOT NULL`); after != before {
		t.Errorf("history after a release and a success: got %s, want %s", after, before)
	}
}

// TestHistoryHavingBadValues: no value in the column keeps a job from being settled, reclaimed or
// read, and no time in the row.
func TestHistoryHavingBadValues(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, bad := range []string{`5`, `{}`, `"x"`, `null`, `[]`, `[1, {"at": 5}, null, "x"]`, `[[[]]]`} {
		db, q := fresh(t, postgres.Options{})
		enqueue(t, q, jobs(3)...)
		held := claim(t, q, 3)
		exec(t, db, `UPDATE errand.jobs SET history = $1::text::jsonb, started_at =
			CASE id % 3 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' END::timestamptz`, bad)
		exec(t, db, `UPDATE errand.jobs SET locked_by = NULL, locked_at = locked_at - interval '1 h', locked_until = NULL WHERE id = $1`, held[2].ID)
		settle(t, q, queue.Outcome{Job: held[0], Action: queue.Retry, Err: errors.New("boom")},
			queue.Outcome{Job: held[1], Action: queue.Dead, Err: errors.New("boom")})
		if back, err := q.Reclaim(t.Context(), 10); err != nil || len(back) != 1 {
			t.Errorf("beside %s: reclaimed %d, error %v; want one", bad, len(back), err)
		}
		for _, j := range held {
			r := recordOf(t, q, j.ID)
			if n := len(r.History); n != 1 || r.History[0].Took < 0 || time.Since(r.History[0].At) > time.Minute {
				t.Errorf("history beside %s: got %+v, want one failure of now", bad, r.History)
			}
		}
	}
}
