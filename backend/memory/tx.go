package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// Tx is an open transaction. *sql.Tx is one, and so is what [Queue.Begin] returns. Once it has
// ended, its methods return [sql.ErrTxDone].
type Tx = interface {
	queue.DB
	Commit() error
	Rollback() error
}

// Begin opens a transaction for Enqueue, Settle and ClaimTx. What they do in it takes effect when
// it commits, and never happens if it rolls back. Until then other claimers pass over its jobs, and
// a call waits that enqueues a key or settles a job that the transaction has touched. Like a
// *sql.Tx it rolls back when ctx ends. It runs no SQL: ExecContext and QueryContext return an
// error. Two transactions that wait for each other do so until a context ends.
func (q *Queue) Begin(ctx context.Context) (Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("begin", err)
	}
	tx := &memTx{q: q, ctx: ctx, done: make(chan struct{}), claims: make(map[int64]int64),
		outputs: make(map[int64]json.RawMessage)}
	tx.stop = context.AfterFunc(ctx, func() { _ = tx.end(false) })
	return tx, nil
}

type memTx struct {
	q     *Queue
	ctx   context.Context
	stop  func() bool
	rows  []*row          // those that it has locked, in that order
	kinds map[string]bool // the kinds that it pauses, or resumes
	done  chan struct{}   // closed when it has ended, under q.mu

	rules     []ruleChange              // what it has set, in that order
	outputs   map[int64]json.RawMessage // of the jobs that it has settled
	claims    map[int64]int64           // the fences of what it has claimed and not yet settled, by the jobs' IDs
	schedules []*schedule               // those that it has locked
	audit     []queue.AuditEntry
}

// txOf returns db as a transaction of a Queue, or nil if db is nil or another handle. If db is a
// nil pointer in an interface, it returns a [*queue.InvalidError].
func txOf(db queue.DB) (*memTx, error) {
	if _, err := handle.Of(db); err != nil {
		return nil, err
	}
	tx, _ := db.(*memTx)
	return tx, nil
}

var (
	errForeignTx = errors.New("the transaction belongs to another Queue")
	errNoSQL     = errors.New("memory: a transaction in memory runs no SQL")
)

// usable returns an error if tx cannot be used with q. The caller holds q.mu.
func (tx *memTx) usable(q *Queue) error {
	switch {
	case tx.q != q:
		return errForeignTx
	case tx.hasEnded():
		return sql.ErrTxDone
	}
	return nil
}

func (tx *memTx) hasEnded() bool {
	select {
	case <-tx.done:
		return true
	default:
		return false
	}
}

// holds reports whether tx has claimed the job by ClaimTx and not yet settled it.
func (tx *memTx) holds(job *queue.Job) bool {
	if tx == nil || job.Worker != "" {
		return false
	}
	fence, ok := tx.claims[job.ID]
	return ok && fence == job.Fence
}

// finds reports whether r, locked by tx, is due for tx in that queue.
func (tx *memTx) finds(r *row, name string, kinds []string, at time.Time) bool {
	d := r.draft
	return d.Status == queue.StatusPending && !d.Ordered && d.Queue == name && !d.ScheduledAt.After(at) &&
		(len(kinds) == 0 || slices.Contains(kinds, d.Kind))
}

// Commit makes everything done in tx visible at once. If Options.Inline is set, it then runs what
// is due.
func (tx *memTx) Commit() error {
	if err := tx.ctx.Err(); err != nil {
		_ = tx.Rollback()
		return err
	}
	tx.stop()
	if err := tx.end(true); err != nil {
		return err
	}
	tx.q.runInline(tx.ctx)
	return nil
}

// Rollback drops everything done in tx.
func (tx *memTx) Rollback() error {
	tx.stop()
	return tx.end(false)
}

func (tx *memTx) end(commit bool) error {
	tx.q.mu.Lock()
	defer tx.q.mu.Unlock()
	if tx.hasEnded() {
		return sql.ErrTxDone
	}
	close(tx.done)
	if commit {
		tx.q.setPaused(tx.kinds)
		for id, output := range tx.outputs {
			tx.q.setOutput(id, output)
		}
	}
	for _, r := range tx.rows {
		if commit {
			r.committed = *r.draft
		}
		r.tx, r.draft = nil, nil
		tx.q.index(r)
		tx.q.hint(r)
	}
	if commit {
		tx.q.applyRules(tx.rules)
		tx.q.appendAudit(tx.audit)
	}
	for _, s := range tx.schedules {
		tx.q.endSchedule(s, commit)
	}
	return nil
}

// ExecContext returns an error.
func (tx *memTx) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errNoSQL
}

// QueryContext returns an error.
func (tx *memTx) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errNoSQL
}

// String names the transaction in messages.
func (tx *memTx) String() string { return "memory.Tx" }
