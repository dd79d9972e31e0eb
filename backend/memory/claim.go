package memory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Claim implements [queue.Consumer]. A job whose lease has expired is not due before
// [Queue.Reclaim] has reclaimed it.
func (q *Queue) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("claim", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	q.lastFence++
	c := &claim{q: q, req: req, at: at, room: req.MaxBytes()}
	for _, name := range req.Queues {
		if rules := q.limits[name]; rules != nil {
			c.fillLimited(name, rules)
		} else {
			c.fill(q.advanced(name, req.Kinds, at), req.Limit-len(c.jobs))
			c.fillOrdered(name, req.Limit-len(c.jobs), nil)
		}
	}
	return c.jobs, nil
}

// claim is a Claim under way.
type claim struct {
	q    *Queue
	req  queue.ClaimRequest
	at   time.Time
	room int // how many bytes more it may return
	jobs []*queue.Job

	meter *limits.Meter // of the limited queue that it is at, or nil
}

// fill claims up to n due jobs of the lanes, and returns how many.
func (c *claim) fill(lanes []*laneRows, n int) (claimed int) {
	for claimed < n && c.take(firstToClaim(lanes)) {
		claimed++
	}
	return claimed
}

// take claims r, unless that is nil, a rate has no tokens for it, or it does not fit in the claim's
// bytes. It reports whether it did.
func (c *claim) take(r *row) bool {
	if r == nil || c.room < 0 {
		return false
	}
	job := &r.committed.Job
	if ok, _ := c.meter.Allows(job.Group, job.Cost); !ok { // memory's buckets can always be read
		return false
	}
	if c.room -= sizeOf(r); c.room < 0 && len(c.jobs) > 0 {
		return false
	}
	_, _ = c.meter.Spend(job.Group, job.Cost)
	c.jobs = append(c.jobs, c.q.claim(nil, r, c.req, c.at))
	return true
}

// sizeOf returns the length of a job's payload and headers in bytes.
func sizeOf(r *row) int {
	size := len(r.committed.Payload)
	for k, v := range r.committed.Headers {
		size += len(k) + len(v)
	}
	return size
}

// claim gives r to the claimer, with the fence that was drawn last, and returns the job for the
// claimer.
func (q *Queue) claim(tx *memTx, r *row, req queue.ClaimRequest, at time.Time) *queue.Job {
	next := *r.visibleTo(tx)
	next.Status = queue.StatusRunning
	next.Attempt++
	next.Fence, next.Worker = q.lastFence, req.Worker
	next.StartedAt, next.LockedAt, next.LeaseEnds, next.UpdatedAt = at, at, leaseEnd(req.Lease), at
	q.write(tx, r, next)
	job := copyOf(next.Job)
	job.Cost = 0
	return &job
}

// Extend implements [queue.Consumer]. It never waits. It also extends the lease of a job that an
// open transaction has locked.
func (q *Queue) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := driver.CheckLease(lease); err != nil {
		return nil, nil, err
	}
	for _, j := range jobs {
		if j == nil {
			return nil, nil, &queue.InvalidError{Field: "Job", Problem: "nil"}
		}
	}
	if len(jobs) == 0 {
		return nil, nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, failed("extend", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at, ends := now(), leaseEnd(lease)
	for _, j := range jobs {
		r := q.rows[j.ID]
		if r == nil || !holds(&r.committed, j) {
			lost = append(lost, j)
			continue
		}
		if !r.committed.CancelAt.IsZero() {
			asked = append(asked, j)
		}
		r.committed.LockedAt, r.committed.LeaseEnds = at, ends
		if r.draft != nil && holds(r.draft, j) { // the transaction has taken the job's key
			r.draft.LockedAt, r.draft.LeaseEnds = at, ends
		}
		q.index(r)
	}
	return lost, asked, nil
}

// Reassign implements [driver.Reassigner].
func (q *Queue) Reassign(ctx context.Context, workers []string, jobs ...*queue.Job) (left []*queue.Job, err error) {
	if err := driver.CheckReassign(workers, jobs); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("reassign", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, j := range jobs {
		r := q.rows[j.ID]
		if r == nil || r.tx != nil || !holds(&r.committed, j) {
			left = append(left, j)
			continue
		}
		r.committed.Worker, j.Worker = workers[i], workers[i]
	}
	return left, nil
}

// leaseEnd returns when a lease ends that begins now. It keeps its monotonic reading, so that no
// jump of the machine's clock ends leases.
func leaseEnd(lease time.Duration) time.Time { return time.Now().Add(lease) }

// Reclaim implements [driver.Reclaimer].
func (q *Queue) Reclaim(ctx context.Context, limit int) ([]*queue.Job, error) {
	if limit < 1 {
		return nil, &queue.InvalidError{Field: "Limit", Problem: fmt.Sprintf("%d: at least 1", limit)}
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("reclaim", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at, steady := now(), time.Now()
	var jobs []*queue.Job
	for len(jobs) < limit {
		r := q.leases.firstDue(steady)
		if r == nil {
			break
		}
		q.write(nil, r, expired(r.committed, q.endOfDead(&r.committed), at))
		job := copyOf(r.committed.Job)
		job.Payload, job.Headers = nil, nil
		jobs = append(jobs, &job)
	}
	return jobs, nil
}

// expired returns the job as it is after its lease has expired. onDead is its status if it has no
// attempt left.
func expired(rec queue.Record, onDead queue.Status, at time.Time) queue.Record {
	rec.LastError = fmt.Sprintf("errand: the lease of worker %s expired", rec.Worker)
	rec.History = withFailure(rec, "", at)
	rec = unheld(rec, at)
	if !rec.CancelAt.IsZero() {
		rec.LastError = driver.ReclaimedCancelled
		return ended(rec, queue.StatusCancelled, at)
	}
	if rec.Attempt >= rec.MaxAttempts {
		return withoutAttempts(rec, onDead, at)
	}
	return waiting(rec)
}

// ClaimTx implements [driver.TxClaimer] in a [Tx] of this Queue. Any other db is an error, because
// the Queue cannot see its end.
func (q *Queue) ClaimTx(ctx context.Context, db queue.DB, req queue.ClaimRequest) (*queue.Job, error) {
	req.Lease, req.Limit, req.Worker = time.Second, 1, "tx"
	if err := req.Check(); err != nil {
		return nil, err
	}
	tx, err := txOf(db)
	if err == nil && tx == nil {
		err = &queue.InvalidError{Field: "DB", Problem: fmt.Sprintf("%T: not a transaction from Begin", db)}
	}
	if err != nil {
		return nil, failed("claim", err)
	}
	var job *queue.Job
	var limited error
	err = q.do(ctx, "claim", tx, func() *memTx {
		if limited = q.checkUnlimited(req.Queues); limited != nil {
			return nil
		}
		at := now()
		r := q.firstIn(tx, req, at)
		if r == nil {
			return nil
		}
		q.lastFence++
		job = q.claim(tx, r, req, at)
		job.Worker = ""
		done := settled(*r.draft, queue.Outcome{Action: queue.Done}, queue.StatusDead, at)
		done.Worker = ""
		q.write(tx, r, done)
		tx.claims[r.id] = job.Fence
		return nil
	})
	return job, cmp.Or(err, limited)
}

// firstIn returns the row that tx claims first. tx also sees jobs that it has itself enqueued or
// released.
func (q *Queue) firstIn(tx *memTx, req queue.ClaimRequest, at time.Time) *row {
	for _, name := range req.Queues {
		best := firstToClaim(q.advanced(name, req.Kinds, at))
		for _, r := range tx.rows {
			if tx.finds(r, name, req.Kinds, at) && (best == nil || claimedBefore(r.draft, &best.committed)) {
				best = r
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}
