package sqlkit

import (
	"time"

	"github.com/errandhq/errand/queue"
)

// RunTimes are the columns of a row that tell about its last run. Zero means NULL.
type RunTimes struct{ Locked, LockedUntil, Started, Finished time.Time }

// Fill sets the times of r's run. Status, ScheduledAt and UpdatedAt must be set.
//
// A program older than the columns, and the guide's statements, write neither started_at nor
// finished_at, so these may be NULL, or left over from an earlier run. They hold where the row
// shows that errand has written them: a running job by its lease, which only errand's claim sets,
// and an ended one by a finished_at that is not before the job was due. Everywhere else updated_at
// tells when a run began or a job ended, because nothing but a change of status sets it; and an
// ended job has begun at its locked_at, which only the guide's statement leaves.
//
// A dead or cancelled job has not finished after its updated_at, by which the lists find it: a
// later finished_at, as beside a trigger that sets updated_at, counts as that. ClaimTx completes a
// job with an earlier updated_at, that of its transaction.
func (t RunTimes) Fill(r *queue.Record) {
	switch r.Status {
	case queue.StatusRunning:
		r.LockedAt, r.LeaseEnds = t.Locked, t.LockedUntil
		r.StartedAt = t.Started
		if t.Started.IsZero() || !t.LockedUntil.After(t.Locked) {
			r.StartedAt = r.UpdatedAt
		}
	case queue.StatusCompleted, queue.StatusDead, queue.StatusCancelled:
		r.StartedAt, r.FinishedAt = t.Started, t.Finished
		switch {
		case t.Finished.IsZero() || t.Finished.Before(r.ScheduledAt):
			r.StartedAt, r.FinishedAt = t.Locked, r.UpdatedAt
		case t.Finished.After(r.UpdatedAt) && r.Status != queue.StatusCompleted:
			r.FinishedAt = r.UpdatedAt
		}
	}
}

// Bound returns the bound t of a filter in whole microseconds, rounded up. Rows have whole
// microseconds, so this changes nothing for them. Drivers and servers would round down, or to the
// nearest one.
func Bound(t time.Time) time.Time {
	if down := t.Truncate(time.Microsecond); down.Before(t) {
		return down.Add(time.Microsecond)
	}
	return t
}
