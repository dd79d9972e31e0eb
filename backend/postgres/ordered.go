package postgres

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Ordered jobs.
//
// Problem: of a group only the first job may be claimed. A claim that walked all due jobs and
// passed over the others would read a million of them for a few.
// Rule: ordered jobs have a priority that no other job has, the last one, and no claim of other
// jobs reads it. claim_ordered leaps from group to group along an index. A claim calls it for the
// queues that are known to have ordered jobs, after their other jobs. A queue becomes known when
// claim.sql fails because it comes to such jobs, which costs other queues nothing.
// Bounds: one more statement a claim for ten minutes after the last ordered job; limits.WalkTime.
// Shown by: the conformance suite's theme order, TestOrderedClaims, TestPlans.

const (
	// orderedPriority is the priority of ordered jobs in the table.
	orderedPriority = math.MaxInt32
	// foundOrdered is the SQLSTATE of lock_due's answer that a queue has ordered jobs.
	foundOrdered = "EORD1"
	// forgetOrdered is how long after its last ordered job a queue is known to have some.
	forgetOrdered = 10 * time.Minute
	// orderedPoll is how often to look for jobs that could follow one that runs elsewhere. Its end
	// wakes no worker but its own.
	orderedPoll = time.Second
)

// orderedQueues are the queues that are known to have ordered jobs. The zero value knows none.
type orderedQueues struct {
	mu    sync.Mutex
	known map[string]orderedQueue
}

type orderedQueue struct {
	after   string    // the group behind which the next claim begins
	seen    time.Time // when there were ordered jobs
	hasMore bool      // the last claim has not looked at all groups
	busy    int       // how many claims in sequence have not looked, because other claims held the lock
}

// get returns what is known of a queue. ok is false if it has no ordered jobs.
func (o *orderedQueues) get(name string, now time.Time) (q orderedQueue, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, ok = o.known[name]
	if ok && now.Sub(q.seen) > forgetOrdered {
		delete(o.known, name)
		return q, false
	}
	return q, ok
}

func (o *orderedQueues) set(name string, q orderedQueue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = make(map[string]orderedQueue)
	}
	o.known[name] = q
}

// upTo returns how many of the queues there are up to the first that has ordered jobs, and whether
// one has.
func (o *orderedQueues) upTo(queues []string, now time.Time) (n int, ok bool) {
	for i, name := range queues {
		if _, ok := o.get(name, now); ok {
			return i + 1, true
		}
	}
	return len(queues), false
}

// bound returns until when a worker of the queues may sleep although it is not notified: next, or
// less if there have just been ordered jobs.
func (o *orderedQueues) bound(queues []string, next time.Duration, now time.Time) time.Duration {
	for _, name := range queues {
		limit := time.Duration(-1)
		switch q, ok := o.get(name, now); {
		case ok && q.hasMore:
			limit = limits.WalkTime
		case ok && now.Sub(q.seen) < 2*orderedPoll:
			limit = orderedPoll
		}
		if limit > 0 && (next < 0 || limit < next) {
			next = limit
		}
	}
	return next
}

// unordered returns the spans without their ordered jobs.
func unordered(all []span) []span {
	for i := range all {
		all[i].last = min(all[i].last, orderedPriority-1)
	}
	return all
}

// findOrdered asks which of the queues have ordered jobs.
func (b *Backend) findOrdered(ctx context.Context, queues []string) error {
	return b.run(ctx, "claim", nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			b.ordered.set(name, orderedQueue{seen: time.Now()})
			return err
		}, b.sql["ordered_queues"], textArray(queues))
	})
}

// left returns the request for what is left of req after those jobs.
func left(req queue.ClaimRequest, jobs []*queue.Job) queue.ClaimRequest {
	req.Limit -= len(jobs)
	if len(jobs) > 0 {
		req.Bytes = max(req.MaxBytes()-bytesOf(jobs), 1)
	}
	return req
}

func bytesOf(jobs []*queue.Job) (bytes int) {
	for _, job := range jobs {
		bytes += sizeOf(job)
	}
	return bytes
}

// isFull reports whether the jobs are all that the claim asks for. The next job may be as long as
// all of them together.
func isFull(req queue.ClaimRequest, jobs []*queue.Job) bool {
	return len(jobs) >= req.Limit || bytesOf(jobs) > req.MaxBytes()/2
}

// claimOrdered claims ordered jobs of the request's one queue. While it comes only to groups that
// are blocked, it walks on for limits.WalkTime, if it may wait. The next claim goes on there.
func (b *Backend) claimOrdered(ctx context.Context, req queue.ClaimRequest, version int64, wait patience) (jobs []*queue.Job, err error) {
	name := req.Queues[0]
	for begun := time.Now(); ; {
		q, _ := b.ordered.get(name, begun)
		jobs, _, err = b.claimWithPayloads(ctx, req, b.orderedClaim(name, &q, version, wait.after(q.busy)))
		if errors.Is(err, errClaimsBusy) {
			q.hasMore = true
			q.busy++
			b.ordered.set(name, q)
		}
		if err != nil {
			return jobs, err
		}
		q.busy = 0
		b.ordered.set(name, q)
		if len(jobs) > 0 || !q.hasMore || wait == noPatience || time.Since(begun) > limits.WalkTime {
			return jobs, nil
		}
	}
}

// orderedClaim returns the statement that claims ordered jobs of a queue, sql/claim_ordered.sql. It
// updates q.
func (b *Backend) orderedClaim(name string, q *orderedQueue, version int64, wait patience) claimQuery {
	return claimQuery{
		text: b.sql["claim_ordered"],
		args: func(req queue.ClaimRequest, longest int64) []any {
			return []any{
				name, kinds(req), req.Limit, sqlkit.Microseconds(req.Lease), req.Worker, longest, q.after, version,
				sqlkit.Microseconds(time.Duration(wait)),
			}
		},
		wait: wait,
		last: func(row *queue.Job) {
			q.after, q.hasMore = row.Group, row.Attempt > 0
			if visited := row.MaxAttempts; visited > 0 {
				q.seen = time.Now()
			}
		},
	}
}

// asOrderedRace makes an errLockBusy of the error of a claim that found a job of the group running
// just now.
func asOrderedRace(err error) error {
	if sqlState(err) == uniqueViolation {
		return errors.Join(errLockBusy, err)
	}
	return err
}
