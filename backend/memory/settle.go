package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Settle implements [queue.Consumer]. It waits only for an open transaction that has settled one of
// the jobs.
func (q *Queue) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	tx, err := txOf(db)
	if err != nil {
		return nil, failed("settle", err)
	}
	var keyErr error
	err = q.do(ctx, "settle", tx, func() *memTx {
		for _, o := range outcomes {
			if r := q.held(tx, o.Job); r != nil && r.tx != nil && r.tx != tx {
				return r.tx
			}
			if keyErr = q.checkKey(tx, o); keyErr != nil {
				return nil
			}
		}
		at := now()
		for _, o := range outcomes {
			if r := q.held(tx, o.Job); r != nil {
				q.keepOutput(tx, o)
				was := r.visibleTo(tx)
				q.throttle(was, o, at)
				q.write(tx, r, settled(*was, o, q.endOfDead(was), at))
				if tx != nil {
					delete(tx.claims, r.id)
				}
			} else {
				lost = append(lost, o.Job)
			}
		}
		return nil
	})
	if err == nil && keyErr != nil {
		err = failed("settle", keyErr)
	}
	return lost, err
}

// held returns the row of the job if the caller holds the job, else nil.
func (q *Queue) held(tx *memTx, job *queue.Job) *row {
	if r := q.rows[job.ID]; r != nil && (holds(r.visibleTo(tx), job) || tx.holds(job)) {
		return r
	}
	return nil
}

// checkKey returns an error if the outcome would make a job live again that ClaimTx has completed,
// while another live job has its key.
func (q *Queue) checkKey(tx *memTx, o queue.Outcome) error {
	if !tx.holds(o.Job) || o.Action == queue.Done {
		return nil
	}
	if r := q.rows[o.Job.ID]; r.draft.Key != "" {
		if other, _ := q.holder(tx, keyOf(&r.draft.Job)); other != nil {
			return fmt.Errorf("the key of job %d is taken by job %d", r.id, other.id)
		}
	}
	return nil
}

// settled returns the job after the outcome. A completed job keeps its fence and its worker. onDead
// is the status of a job that has no attempt left.
func settled(rec queue.Record, o queue.Outcome, onDead queue.Status, at time.Time) queue.Record {
	if o.Action == queue.Done {
		return ended(unleased(rec, at), queue.StatusCompleted, at)
	}
	if o.Action != queue.Release {
		rec.LastError = queue.ErrorText(o.Err)
		rec.History = withFailure(rec, driver.StackText(o.Err), at)
	}
	rec = unheld(rec, at)
	if o.Action == queue.Release {
		rec.Attempt--
	}
	switch {
	case o.Action == queue.Dead:
		rec.CancelAt = time.Time{}
		return withoutAttempts(rec, onDead, at)
	case o.Action == queue.Cancel || !rec.CancelAt.IsZero():
		if rec.CancelAt.IsZero() {
			rec.CancelAt = at
		}
		return ended(rec, queue.StatusCancelled, at)
	case o.Action == queue.Retry && rec.Attempt >= rec.MaxAttempts:
		return withoutAttempts(rec, onDead, at)
	case o.Action == queue.Retry || o.Delay > 0: // else it keeps its place
		rec.ScheduledAt = at.Add(max(o.Delay, 0))
	}
	return waiting(rec)
}

// endOfDead returns the status that the job has when it has no attempt left: dead, or held by a
// rule. The caller holds q.mu.
func (q *Queue) endOfDead(rec *queue.Record) queue.Status {
	rule := q.rules[ruleKey{queue: rec.Queue}]
	if rec.Ordered && rec.CancelAt.IsZero() && rule.OnDead == queue.HoldDead {
		return queue.StatusHeld
	}
	return queue.StatusDead
}

// withoutAttempts returns the job that has no attempt left, with that status.
func withoutAttempts(rec queue.Record, status queue.Status, at time.Time) queue.Record {
	if status != queue.StatusHeld {
		return ended(rec, status, at)
	}
	rec = waiting(rec)
	rec.Status = status
	return rec
}

// withFailure returns the job's history with the run that ends now in LastError. It copies: a
// transaction may roll back to the history of before.
func withFailure(rec queue.Record, stack string, at time.Time) []queue.Failure {
	kept := rec.History[max(len(rec.History)-driver.MaxHistory+1, 0):]
	text := []rune(rec.LastError)
	return append(slices.Clone(kept), queue.Failure{
		At: at, Attempt: rec.Attempt, Redrives: rec.Redrives, Worker: cmp.Or(rec.Worker, "transaction"),
		Error: string(text[:min(len(text), driver.MaxHistoryText)]), Stack: stack, Took: at.Sub(rec.StartedAt),
	})
}

// ended returns the job with the status that it has ended with.
func ended(rec queue.Record, status queue.Status, at time.Time) queue.Record {
	rec.Status, rec.FinishedAt = status, at
	return rec
}

// waiting returns the job as pending. It keeps no times of an earlier run.
func waiting(rec queue.Record) queue.Record {
	rec.Status = queue.StatusPending
	rec.StartedAt, rec.FinishedAt = time.Time{}, time.Time{}
	return rec
}

// unheld returns the job without its claim.
func unheld(rec queue.Record, at time.Time) queue.Record {
	rec.Fence, rec.Worker = 0, ""
	return unleased(rec, at)
}

// unleased returns the job without its lease.
func unleased(rec queue.Record, at time.Time) queue.Record {
	rec.LockedAt, rec.LeaseEnds = time.Time{}, time.Time{}
	rec.UpdatedAt = at
	return rec
}
