// Package memory is a queue in memory, for tests and for programs that may lose their jobs with the
// process. Package queuetest makes one of it that tests can ask for jobs.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Options configure [New]. The zero value works.
type Options struct {
	Retention queue.Retention
	// MaxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload].
	MaxPayload int
	// Inline, if not nil, runs jobs without a worker. Before Enqueue returns, or before Commit does
	// if the jobs are in a [Tx], all due jobs are run as by [Queue.Drain], in the caller's
	// goroutine. An outcome is recorded with its job and is not Enqueue's error. A failed job waits
	// for its back-off and a delayed one for its time, until the next Drain or Enqueue after that.
	//
	// As in production, a handler's context does not have the values of the enqueuer's, and does
	// not end with it. What a handler enqueues with its context is run after it has returned, so a
	// chain of jobs may be of any length. If goroutines enqueue at the same time, one may run the
	// job of another, whose Enqueue does not wait for it.
	Inline queue.Handler
}

// Queue is a [queue.Queue] in memory that behaves as the SQL backends do. It
// implements every optional interface of package driver except for [driver.Pooled],
// [driver.TxBeginner], [driver.Tabled] and [driver.Served], which are for databases, and
// [driver.DeathTeller] and [driver.Upkeeper], which it does not need. [New]
// makes one.
//
// Its clock is [time.Now], so in a bubble of testing/synctest its time is the bubble's. It is safe
// for concurrent use and starts no goroutines. It keeps copies: changing a job after Enqueue or
// Claim changes nothing in the queue.
//
// A nil [queue.DB] means that a call takes effect at once; a [Tx] of [Queue.Begin], when that
// commits. Any other DB, such as a *sql.Tx of the database under test, is treated as one that has
// committed already: the jobs are there at once, and stay if it rolls back.
type Queue struct {
	opts Options

	mu        sync.Mutex
	lastID    int64
	lastFence int64
	rows      map[int64]*row
	keys      map[lockKey][]*row            // rows that are live, or that an open transaction makes live
	pending   map[string]map[lane]*laneRows // pending rows by queue and lane
	running   map[int64]*row                // rows that run
	limits    map[string]*limits.Queue      // the rules of each limited queue
	rules     map[ruleKey]queue.Rule
	buckets   map[ruleKey]limits.Bucket // of the rates that are not full; group is "" for a queue's
	tokens    map[string]time.Time      // when a claim of a limited queue has more tokens
	turns     map[string]string         // the group behind which a limited queue's next walk begins
	ordered   map[string]*heads         // the groups of ordered jobs, by queue
	leases    rowHeap                   // running rows; due is when their lease ends
	ended     rowHeap                   // ended rows; due is when their retention is over
	sleepers  map[string]*sleeper
	results   map[int64]queue.Result // Output and Progress of the jobs that have one
	schedules map[string]*schedule

	listeners map[*listener]bool
	paused    map[string]bool // kinds
	workers   map[string]driver.WorkerRecord
	audit     []queue.AuditEntry // in the order of their IDs
	stats     map[statsKey]*queue.StatsRecord

	sources        map[string]bool // of the jobs that Receive has enqueued
	sourcesInOrder []receivedSource
}

var _ queue.Queue = (*Queue)(nil)

// New returns an empty queue.
func New(opts Options) *Queue {
	opts.Retention = opts.Retention.WithDefaults()
	return &Queue{
		opts:     opts,
		rows:     make(map[int64]*row),
		keys:     make(map[lockKey][]*row),
		pending:  make(map[string]map[lane]*laneRows),
		running:  make(map[int64]*row),
		rules:    make(map[ruleKey]queue.Rule),
		buckets:  make(map[ruleKey]limits.Bucket),
		tokens:   make(map[string]time.Time),
		turns:    make(map[string]string),
		ordered:  make(map[string]*heads),
		sleepers: make(map[string]*sleeper),
		results:  make(map[int64]queue.Result),

		schedules: make(map[string]*schedule),
		listeners: make(map[*listener]bool),
		paused:    make(map[string]bool),
		workers:   make(map[string]driver.WorkerRecord),
		stats:     make(map[statsKey]*queue.StatsRecord),
		sources:   make(map[string]bool),
	}
}

// lockKey is a key in its queue, which at most one live job may have.
type lockKey struct{ queue, key string }

// row is one stored job.
type row struct {
	id        int64
	through   queue.DB      // the handle that it was enqueued through, for the option Through
	committed queue.Record  // what all callers see; its Status is "" until its insertion commits
	tx        *memTx        // the open transaction that has locked the row, or nil
	draft     *queue.Record // what tx has made of it; nil without tx

	keys  []lockKey // where the row is in Queue.keys
	line  *line     // of an ordered job while it is live
	heap  *rowHeap  // the heap that holds the row; nil while a transaction has locked it
	index int       // its index in that heap
	due   time.Time // the time that orders it in that heap
}

// visibleTo returns the row as a statement in tx sees it. If tx is nil, that is the committed row.
func (r *row) visibleTo(tx *memTx) *queue.Record {
	if tx != nil && r.tx == tx {
		return r.draft
	}
	return &r.committed
}

// now returns the time without its monotonic reading, so that all stored times compare alike.
func now() time.Time { return time.Now().Round(0) }

func live(r *queue.Record) bool {
	return r.Status == queue.StatusPending || r.Status == queue.StatusRunning || r.Status == queue.StatusHeld
}

// holds reports whether job has the fence and the worker of the running claim that r records.
func holds(r *queue.Record, job *queue.Job) bool {
	return r.Status == queue.StatusRunning && r.Fence == job.Fence && r.Worker == job.Worker
}

// do runs op under the lock, in tx if that is not nil. If op needs a row or key that another
// transaction has locked, it changes nothing and returns that transaction. do waits for its end and
// runs op again, as a database waits for the lock of a row.
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

// write changes r to next: at once, or when tx commits.
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

// index puts r into the heap that its new state belongs to, or deletes it.
func (q *Queue) index(r *row) {
	if r.heap != nil {
		r.heap.remove(r)
	}
	q.indexKey(r)
	q.indexRunning(r)
	q.indexOrder(r)
	if r.tx != nil {
		return // locked: no claim finds it
	}
	rec := &r.committed
	switch rec.Status {
	case queue.StatusPending:
		if !rec.Ordered {
			q.rowsOf(rec).scheduled.add(r, rec.ScheduledAt)
		}
		q.wake(rec.Queue)
	case queue.StatusRunning:
		q.leases.add(r, rec.LeaseEnds)
	case queue.StatusCompleted:
		if q.opts.Retention.Completed < 0 {
			q.remove(r)
			return
		}
		q.ended.add(r, rec.UpdatedAt.Add(q.opts.Retention.Completed))
	case queue.StatusHeld: // in no heap: no claim finds it
	case queue.StatusDead, queue.StatusCancelled:
		q.ended.add(r, rec.UpdatedAt.Add(max(q.opts.Retention.Dead, 0)))
	default: // its insertion was rolled back, or it is deleted
		q.remove(r)
	}
}

// remove deletes a job and its result.
func (q *Queue) remove(r *row) {
	delete(q.rows, r.id)
	delete(q.results, r.id)
}
