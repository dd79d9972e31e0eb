package sqlkit_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// TestRunTimes: a record's times are those of its last run, whichever program wrote its row. The
// seconds of each row are 0 for NULL, and its job was due at 10.
func TestRunTimes(t *testing.T) {
	at := func(second int) time.Time {
		if second == 0 {
			return time.Time{}
		}
		return time.Unix(int64(second), 0).UTC()
	}
	for _, c := range []struct {
		row                                        string
		status                                     queue.Status
		locked, until, started, finished, updated  int
		wantStarted, wantFinished, wantLocked, end int
	}{
		{"pending", queue.StatusPending, 0, 0, 0, 0, 9, 0, 0, 0, 0},
		{"pending, by the guide's stale", queue.StatusPending, 0, 42, 12, 0, 30, 0, 0, 0, 0},
		{"pending, by the guide's retry_dead", queue.StatusPending, 0, 0, 6, 7, 10, 0, 0, 0, 0},
		{"claimed", queue.StatusRunning, 12, 42, 12, 0, 12, 12, 0, 12, 42},
		{"extended", queue.StatusRunning, 22, 52, 12, 0, 12, 12, 0, 22, 52},
		{"extended, and a trigger sets updated_at", queue.StatusRunning, 22, 52, 12, 0, 22, 12, 0, 22, 52},
		{"claimed by an older program, extended", queue.StatusRunning, 22, 52, 0, 0, 12, 12, 0, 22, 52},
		{"claimed by the guide's dequeue", queue.StatusRunning, 12, 0, 0, 0, 12, 12, 0, 12, 0},
		{"claimed by it, locked_at set now and then", queue.StatusRunning, 22, 0, 0, 0, 12, 12, 0, 22, 0},
		{"claimed by it after a crash", queue.StatusRunning, 92, 42, 12, 0, 92, 92, 0, 92, 42},
		{"claimed by it after its retry_dead", queue.StatusRunning, 12, 0, 6, 7, 12, 12, 0, 12, 0},
		{"completed", queue.StatusCompleted, 0, 0, 12, 22, 22, 12, 22, 0, 0},
		{"completed, and changed by hand", queue.StatusCompleted, 0, 0, 12, 22, 99, 12, 22, 0, 0},
		{"completed at once", queue.StatusCompleted, 0, 0, 10, 10, 10, 10, 10, 0, 0},
		{"completed by an older program", queue.StatusCompleted, 0, 0, 0, 0, 22, 0, 22, 0, 0},
		{"claimed here, completed by an older program", queue.StatusCompleted, 0, 0, 12, 0, 22, 0, 22, 0, 0},
		{"completed by the guide", queue.StatusCompleted, 12, 0, 0, 0, 22, 12, 22, 0, 0},
		{"completed by the guide after its retry_dead", queue.StatusCompleted, 12, 0, 6, 7, 22, 12, 22, 0, 0},
		{"dead", queue.StatusDead, 0, 0, 12, 22, 22, 12, 22, 0, 0},
		{"dead by the guide", queue.StatusDead, 0, 0, 0, 0, 22, 0, 22, 0, 0},
		{"dead by the guide after its retry_dead", queue.StatusDead, 0, 0, 6, 7, 22, 0, 22, 0, 0},
		{"failed", queue.StatusFailed, 12, 42, 12, 22, 22, 0, 0, 0, 0},
	} {
		r := queue.Record{Job: queue.Job{ScheduledAt: at(10)}, Status: c.status, UpdatedAt: at(c.updated)}
		sqlkit.RunTimes{Locked: at(c.locked), LockedUntil: at(c.until), Started: at(c.started), Finished: at(c.finished)}.Fill(&r)
		if r.StartedAt != at(c.wantStarted) || r.FinishedAt != at(c.wantFinished) || r.LockedAt != at(c.wantLocked) || r.LeaseEnds != at(c.end) {
			t.Errorf("%s: got started %v, finished %v, locked %v until %v; want %v, %v, %v, %v", c.row, r.StartedAt, r.FinishedAt, r.LockedAt,
				r.LeaseEnds, at(c.wantStarted), at(c.wantFinished), at(c.wantLocked), at(c.end))
		}
	}
}
