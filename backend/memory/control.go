package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// chosen returns the rows that which chooses, as tx sees them, in the order of their IDs. If
// another transaction has locked one of them, it returns that transaction as busy.
func (q *Queue) chosen(tx *memTx, which queue.Selection, statuses ...queue.Status) (rows []*row, busy *memTx) {
	statuses = which.Of(statuses...)
	for _, r := range q.rows {
		rec := r.visibleTo(tx)
		if !slices.Contains(statuses, rec.Status) || !which.Matches(rec) {
			continue
		}
		if r.tx != nil && r.tx != tx {
			return nil, r.tx
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, byID)
	return rows, nil
}

// Cancel implements [driver.Canceller]. It changes all jobs at once.
func (q *Queue) Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Cancellable()...); err != nil {
		return 0, failed("cancel", err)
	}
	tx, err := txOf(db)
	if err != nil {
		return 0, failed("cancel", err)
	}
	err = q.do(ctx, "cancel", tx, func() *memTx {
		rows, busy := q.chosen(tx, which, driver.Cancellable()...)
		if busy != nil {
			return busy
		}
		at := now()
		for _, r := range rows {
			next := *r.visibleTo(tx)
			next.CancelAt = at
			if next.Status != queue.StatusRunning {
				next.UpdatedAt = at
				next = ended(next, queue.StatusCancelled, at)
			}
			q.write(tx, r, next)
			if tx == nil {
				q.hint(r)
			}
		}
		n = len(rows)
		return nil
	})
	return n, err
}

// Redrive implements [driver.Editor]. It changes all jobs at once. Of jobs with the same key it
// redrives the oldest.
func (q *Queue) Redrive(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Redrivable()...); err != nil {
		return 0, failed("redrive", err)
	}
	at := now()
	return q.changeJobs(ctx, "redrive", db, which, which.Of(queue.StatusDead), func(rec queue.Record) queue.Record {
		rec = waiting(rec)
		rec.Attempt, rec.LastError, rec.CancelAt = 0, "", time.Time{}
		rec.ScheduledAt, rec.UpdatedAt, rec.RedrivenAt = at, at, at
		rec.Redrives++
		return rec
	})
}

// Edit implements [driver.Editor]. It changes all jobs at once.
func (q *Queue) Edit(ctx context.Context, db queue.DB, which queue.Selection, c queue.JobChange) (n int, err error) {
	statuses := driver.Editable()
	if err := cmp.Or(which.Check(statuses...), c.Check(q.opts.MaxPayload)); err != nil {
		return 0, failed("edit", err)
	}
	at := now()
	return q.changeJobs(ctx, "edit", db, which, which.Of(statuses...), func(rec queue.Record) queue.Record {
		return edited(rec, c, at)
	})
}

// Delete implements [driver.Editor]. It deletes all jobs at once.
func (q *Queue) Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Deletable()...); err != nil {
		return 0, failed("delete", err)
	}
	tx, err := txOf(db)
	if err != nil {
		return 0, failed("delete", err)
	}
	err = q.do(ctx, "delete", tx, func() *memTx {
		rows, busy := q.chosen(tx, which, driver.Deletable()...)
		if busy != nil {
			return busy
		}
		for _, r := range rows {
			next := *r.visibleTo(tx)
			next.Status = "" // index removes the row
			q.write(tx, r, next)
			if tx != nil {
				delete(tx.claims, r.id)
			}
		}
		n = len(rows)
		return nil
	})
	return n, err
}

// edited returns the job after the change.
func edited(rec queue.Record, c queue.JobChange, at time.Time) queue.Record {
	switch {
	case c.RunNow:
		rec.Status, rec.ScheduledAt = queue.StatusPending, at
	case c.Delay > 0:
		rec.ScheduledAt = at.Add(c.Delay)
	case !c.ScheduledAt.IsZero():
		rec.ScheduledAt = c.ScheduledAt.Round(0)
	}
	if c.Priority != nil && !rec.Ordered {
		rec.Priority = *c.Priority
	}
	if c.Payload != nil {
		rec.Payload = bytes.Clone(c.Payload)
	}
	rec.Queue = cmp.Or(c.Queue, rec.Queue)
	rec.MaxAttempts = cmp.Or(c.MaxAttempts, rec.MaxAttempts)
	rec.UpdatedAt = at
	return rec
}

// changeJobs makes of each chosen job what to returns, unless another live job has the key that the
// job would then hold. It returns how many jobs it has changed.
func (q *Queue) changeJobs(ctx context.Context, operation string, db queue.DB, which queue.Selection, statuses []queue.Status, to func(queue.Record) queue.Record) (n int, err error) {
	tx, err := txOf(db)
	if err != nil {
		return 0, failed(operation, err)
	}
	err = q.do(ctx, operation, tx, func() *memTx {
		rows, busy := q.chosen(tx, which, statuses...)
		if busy != nil {
			return busy
		}
		for _, r := range rows {
			next := to(*r.visibleTo(tx))
			if _, busy := q.holder(tx, keyOf(&next.Job)); busy != nil {
				return busy
			}
		}
		for _, r := range rows {
			next := to(*r.visibleTo(tx))
			if other, _ := q.holder(tx, keyOf(&next.Job)); other != nil && other != r {
				continue
			}
			q.write(tx, r, next)
			n++
		}
		return nil
	})
	return n, err
}

// hint tells the holder of r if it is asked to cancel the job. The caller holds q.mu.
func (q *Queue) hint(r *row) {
	if r.committed.Status != queue.StatusRunning || r.committed.CancelAt.IsZero() {
		return
	}
	for l := range q.listeners {
		if l.worker == r.committed.Worker {
			l.signal.Cancels, l.signal.IDs = true, append(l.signal.IDs, r.id)
			l.notify()
		}
	}
}
