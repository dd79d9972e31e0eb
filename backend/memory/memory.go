package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// Options are the choices of [New]; the zero value is good.
type Options struct {
	Retention queue.Retention
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload].
	MaxPayload int
	// Inline, where not nil, runs jobs without a worker: before Enqueue returns, or
	// where they are in a [Tx], before its Commit does, whatever is due is run as by
	// [Queue.Drain], in the caller's goroutine. What a job comes to is recorded with
	// it and is not Enqueue's error: one that failed waits for its back-off, and one
	// that is delayed for its time, until a Drain, or the next Enqueue, comes after that.
	//
	// As in production, a handler's context has neither the values nor the end of the
	// enqueuer's. What it enqueues with that context is run after it has
	// returned, so that a chain of jobs may be of any length. Where goroutines
	// enqueue at the same time, one may run the job of another, whose Enqueue does not
	// wait for it.
	Inline queue.Handler
}

// Queue is a [queue.Queue] in memory that behaves as the SQL backends do, with
// all optional powers: [queue.Waiter], [queue.Inspector], [queue.Backlogger],
// [queue.Redriver], [queue.Pruner], [queue.Reclaimer] and [queue.TxClaimer]. Make
// one with [New].
//
// Its clock is [time.Now], so within testing/synctest its time is the bubble's.
// It may be used concurrently, starts no goroutines, and keeps copies: changing
// a job after Enqueue or after Claim changes nothing in the queue.
//
// Where a method takes a [queue.DB], nil means at once, and a [Tx] of
// [Queue.Begin] means when that commits. Any other DB, such as a *sql.Tx of the
// database under test, is taken for one that has committed already: the jobs are
// there at once, and stay when it rolls back.
type Queue struct {
	opts Options

	mu        sync.Mutex
	lastID    int64
	lastFence int64
	rows      map[int64]*row
	keys      map[lockKey][]*row          // rows that are live, or that an open transaction makes live
	lines     map[string]map[string]*line // pending rows by queue and kind
	leases    pile                        // running rows; due is when their lease ends
	ended     pile                        // completed and dead rows; due is when their retention is over
	sleepers  map[string]*sleeper
}

var _ interface {
	queue.Queue
	queue.Waiter
	queue.Inspector
	queue.Backlogger
	queue.Redriver
	queue.Pruner
	queue.Reclaimer
	queue.TxClaimer
} = (*Queue)(nil)

// New returns an empty queue.
func New(opts Options) *Queue {
	opts.Retention = opts.Retention.WithDefaults()
	return &Queue{
		opts:     opts,
		rows:     make(map[int64]*row),
		keys:     make(map[lockKey][]*row),
		lines:    make(map[string]map[string]*line),
		sleepers: make(map[string]*sleeper),
	}
}

// lockKey is what at most one live job may have.
type lockKey struct{ queue, key string }

// row is one stored job.
type row struct {
	id        int64
	key       lockKey
	through   queue.DB      // the handle that it was enqueued through, for the option Through
	committed queue.Record  // what everyone sees; its Status is "" until its insertion commits
	tx        *memTx        // the open transaction that has locked the row, or nil
	draft     *queue.Record // what tx has made of it; nil without tx

	keyed bool      // the row is in Queue.keys
	in    *pile     // where the row is found; nil while it is locked
	at    int       // its index there
	due   time.Time // what orders it there
}

// seen is the row as a statement in tx, or outside any where tx is nil, sees it.
func (r *row) seen(tx *memTx) *queue.Record {
	if tx != nil && r.tx == tx {
		return r.draft
	}
	return &r.committed
}

// now is without the monotonic reading, so that all stored times compare alike.
func now() time.Time { return time.Now().Round(0) }

func live(r *queue.Record) bool {
	return r.Status == queue.StatusPending || r.Status == queue.StatusRunning
}

// holds says whether whoever presents job holds the job that r records.
func holds(r *queue.Record, job *queue.Job) bool {
	return r.Status == queue.StatusRunning && r.Fence == job.Fence && r.Worker == job.Worker
}

// do runs op under the lock, in tx where that is not nil. While op returns
// another transaction that is in its way, having changed nothing, do waits for
// that one to end and tries again, as a database waits for a row's lock.
func (q *Queue) do(ctx context.Context, operation string, tx *memTx, op func() (busy *memTx)) error {
	for {
		if err := ctx.Err(); err != nil {
			return failed(operation, err)
		}
		busy, err := q.try(tx, op)
		if err != nil {
			return failed(operation, err)
		}
		if busy == nil {
			return nil
		}
		select {
		case <-busy.done:
		case <-ctx.Done():
		}
	}
}

func (q *Queue) try(tx *memTx, op func() *memTx) (busy *memTx, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if tx != nil {
		if err := tx.usable(q); err != nil {
			return nil, err
		}
	}
	return op(), nil
}

func failed(operation string, err error) error { return fmt.Errorf("memory: %s: %w", operation, err) }

// write makes next of r: at once, or when tx commits.
func (q *Queue) write(tx *memTx, r *row, next queue.Record) {
	switch {
	case tx == nil:
		r.committed = next
	case r.tx == nil:
		r.tx = tx
		tx.rows = append(tx.rows, r)
		fallthrough
	default:
		r.draft = &next
	}
	q.index(r)
}

// index puts r where its state is found from now on, or deletes it.
func (q *Queue) index(r *row) {
	if r.in != nil {
		r.in.remove(r)
	}
	q.indexKey(r)
	if r.tx != nil {
		return // locked: nobody finds it
	}
	rec := &r.committed
	switch rec.Status {
	case queue.StatusPending:
		q.line(rec.Queue, rec.Kind).later.add(r, rec.ScheduledAt)
		q.wake(rec.Queue)
	case queue.StatusRunning:
		q.leases.add(r, rec.LeaseEnds)
	case queue.StatusCompleted:
		if q.opts.Retention.Completed < 0 {
			delete(q.rows, r.id)
			return
		}
		q.ended.add(r, rec.UpdatedAt.Add(q.opts.Retention.Completed))
	case queue.StatusDead:
		q.ended.add(r, rec.UpdatedAt.Add(max(q.opts.Retention.Dead, 0)))
	default: // its insertion was rolled back
		delete(q.rows, r.id)
	}
}
