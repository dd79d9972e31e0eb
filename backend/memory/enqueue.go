package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// Enqueue implements [queue.Enqueuer]. It waits only for an open transaction that holds a key of
// one of the jobs.
func (q *Queue) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	for _, j := range jobs {
		if err := j.Check(q.opts.MaxPayload); err != nil {
			return err
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	tx, err := txOf(db)
	if err != nil {
		return failed("enqueue", err)
	}
	err = q.do(ctx, "enqueue", tx, func() *memTx {
		for _, j := range jobs {
			if _, busy := q.holder(tx, keyOf(j)); busy != nil {
				return busy
			}
		}
		at := now()
		for _, j := range jobs {
			q.insert(tx, db, j, at)
		}
		return nil
	})
	if err == nil && tx == nil {
		q.runInline(ctx)
	}
	return err
}

// insert writes j, unless a live job has its key and is to be kept. The caller holds q.mu, and has
// made sure that no other transaction has locked that job.
func (q *Queue) insert(tx *memTx, db queue.DB, j *queue.Job, at time.Time) {
	j.Duplicate, j.Replaced = false, false
	if r, _ := q.holder(tx, keyOf(j)); r != nil {
		old := *r.visibleTo(tx)
		switch {
		case j.OnDuplicate != queue.Replace:
			j.ID, j.Duplicate = r.id, true
			return
		case old.Status != queue.StatusRunning:
			j.ID, j.Replaced = r.id, true
			q.write(tx, r, replaced(old, j, at))
			return
		}
		old.Key = ""
		q.write(tx, r, old)
	}
	q.lastID++
	j.ID = q.lastID
	r := &row{id: j.ID, through: db}
	q.rows[r.id] = r
	q.write(tx, r, newRecord(j, at))
}

// replaced returns the pending or held job old after j has taken its place.
func replaced(old queue.Record, j *queue.Job, at time.Time) queue.Record {
	next := newRecord(j, at)
	next.ID, next.Status = old.ID, old.Status
	if old.Attempt == 0 {
		next.CreatedAt = old.CreatedAt
	}
	if j.MaxDelay > 0 {
		if latest := next.CreatedAt.Add(j.MaxDelay); latest.Before(next.ScheduledAt) {
			next.ScheduledAt = latest
		}
	}
	if j.ScheduledAt.IsZero() && !next.ScheduledAt.After(at) { // it is not put off, so it keeps its place
		next.ScheduledAt = at
		if old.ScheduledAt.Before(at) {
			next.ScheduledAt = old.ScheduledAt
		}
	}
	next.RedrivenAt, next.Redrives, next.History = old.RedrivenAt, old.Redrives, old.History
	return next
}

// newRecord returns what is stored of j, in memory of its own.
func newRecord(j *queue.Job, at time.Time) queue.Record {
	job := queue.Job{
		ID: j.ID, Queue: queueOf(j), Kind: j.Kind, Payload: bytes.Clone(j.Payload),
		Priority: j.Priority, ScheduledAt: j.ScheduledAt.Round(0), MaxAttempts: j.MaxAttempts,
		Key: j.Key, Group: j.Group, Ordered: j.Ordered, Headers: maps.Clone(j.Headers), CreatedAt: at,
	}
	if job.Payload == nil {
		job.Payload = json.RawMessage("null")
	}
	if job.ScheduledAt.IsZero() {
		job.ScheduledAt = at.Add(j.Delay)
	}
	if j.Cost > 1 {
		job.Cost = j.Cost
	}
	if job.MaxAttempts == 0 {
		job.MaxAttempts = queue.DefaultMaxAttempts
	}
	return queue.Record{Job: job, Status: queue.StatusPending, UpdatedAt: at}
}

// copyOf returns a copy of a stored job for a caller, in memory of its own.
func copyOf(j queue.Job) queue.Job {
	j.Payload = bytes.Clone(j.Payload)
	j.Headers = maps.Clone(j.Headers)
	return j
}

func queueOf(j *queue.Job) string {
	if j.Queue == "" {
		return queue.DefaultQueue
	}
	return j.Queue
}

func keyOf(j *queue.Job) lockKey { return lockKey{queue: queueOf(j), key: j.Key} }

// holder returns the live row that has the key as a statement in tx sees it, or nil. If that
// depends on how another transaction ends, it returns that transaction as busy.
func (q *Queue) holder(tx *memTx, k lockKey) (r *row, busy *memTx) {
	for _, r := range q.keys[k] {
		if r.tx != nil && r.tx != tx {
			return nil, r.tx
		}
		if rec := r.visibleTo(tx); holdsKey(rec) && keyOf(&rec.Job) == k {
			return r, nil
		}
	}
	return nil, nil
}

// holdsKey reports whether the job has a key that no other job may take.
func holdsKey(r *queue.Record) bool { return live(r) && r.Key != "" }

// indexKey keeps r in keys while it holds its key, or may hold one after an open transaction.
func (q *Queue) indexKey(r *row) {
	if r.committed.Key == "" && (r.draft == nil || r.draft.Key == "") && len(r.keys) == 0 {
		return
	}
	var held []lockKey
	for _, rec := range []*queue.Record{&r.committed, r.draft} {
		if rec != nil && holdsKey(rec) && !slices.Contains(held, keyOf(&rec.Job)) {
			held = append(held, keyOf(&rec.Job))
		}
	}
	for _, k := range r.keys {
		if slices.Contains(held, k) {
			continue
		}
		if q.keys[k] = slices.DeleteFunc(q.keys[k], func(o *row) bool { return o == r }); len(q.keys[k]) == 0 {
			delete(q.keys, k)
		}
	}
	for _, k := range held {
		if !slices.Contains(r.keys, k) {
			q.keys[k] = append(q.keys[k], r)
		}
	}
	r.keys = held
}
