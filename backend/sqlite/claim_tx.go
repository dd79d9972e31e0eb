package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// transaction is the name of the worker that holds a job of ClaimTx while the job is settled.
const transaction = "transaction"

// ClaimTx implements [driver.TxClaimer]. From then on the transaction has the file's write lock, so
// no other transaction writes until it ends, and a second ClaimTx waits. If completed jobs are not
// kept, the next Prune removes the job. Pass the same tx to Settle: with another handle of the same
// transaction it reports the job as lost.
func (b *Backend) ClaimTx(ctx context.Context, tx queue.DB, req queue.ClaimRequest) (*queue.Job, error) {
	req.Limit, req.Lease, req.Worker = 1, time.Second, transaction
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("sqlite: claim: %w", err)
	}
	kind, err := handle.Of(tx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sqlite: claim: %w", err)
	case kind != handle.Tx:
		return nil, fmt.Errorf("sqlite: claim: %w", sqlkit.Invalid("DB", "%T: not a transaction, which has Commit and Rollback", tx))
	}
	var job *queue.Job
	err = b.onCallersHandle(ctx, "claim", tx, kind, func(ctx context.Context, db queue.DB) error {
		fence, version, err := b.drawFence(ctx, db)
		if err != nil {
			return err
		}
		known, err := b.rulesOf(ctx, db, version)
		if err != nil {
			return err
		}
		if name, ok := known.firstLimited(req.Queues); ok {
			return limits.InTransaction(name)
		}
		found, err := b.find(ctx, db, req, known, false)
		if err != nil || len(found.jobs) == 0 {
			return err
		}
		job = found.jobs[0]
		job.Attempt = min(job.Attempt, maxAttempt-1) + 1
		job.Fence = fence
		refused, err := halve(ctx, db, []int64{job.ID}, func([]int64) error {
			_, err := exec(ctx, db, b.sql["complete"], job.ID, fence, now())
			return err
		})
		b.badRows.claims.Note(b.options.Logger, "claim", refused)
		return errors.Join(err, badrows.AsError(refused))
	})
	if err != nil || job == nil {
		return nil, err
	}
	b.file.claims.add(tx, txClaim{b.options.Prefix, job.ID, job.Fence})
	return job, nil
}

// txClaim identifies a job that a transaction has claimed in the tables with that prefix.
type txClaim struct {
	prefix    string
	id, fence int64
}

// txClaims holds the unsettled claims of the last transaction that called ClaimTx. That transaction
// has the write lock, so every earlier one has ended.
type txClaims struct {
	mu   sync.Mutex
	tx   queue.DB
	open map[txClaim]bool
}

func (c *txClaims) add(tx queue.DB, claim txClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !handle.Same(c.tx, tx) {
		c.tx, c.open = tx, make(map[txClaim]bool)
	}
	c.open[claim] = true
}

// has reports whether tx made the claim and has not yet settled it.
func (c *txClaims) has(tx queue.DB, claim txClaim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[claim] && handle.Same(c.tx, tx)
}

func (c *txClaims) remove(claim txClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, claim)
}

// resume makes the jobs of g ready to be settled if tx has claimed them with ClaimTx. It returns
// these jobs, and the lost ones. db runs statements on tx.
func (b *Backend) resume(ctx context.Context, tx, db queue.DB, g claimed[queue.Outcome]) (resumed claimed[queue.Outcome], lost []*queue.Job, err error) {
	resumed = g
	resumed.Worker, resumed.Items = transaction, nil
	for _, o := range g.Items {
		claim := txClaim{b.options.Prefix, o.Job.ID, o.Job.Fence}
		if !b.file.claims.has(tx, claim) {
			lost = append(lost, o.Job)
			continue
		}
		status := queue.StatusRunning
		if o.Action == queue.Done {
			status = queue.StatusCompleted
		}
		ids, err := queryIDs(ctx, db, b.sql["resume"], o.Job.ID, o.Job.Fence, string(status), now(), transaction)
		if err != nil {
			return resumed, nil, err
		}
		b.file.claims.remove(claim)
		if len(ids) == 0 { // the transaction has rolled back to a savepoint before ClaimTx
			lost = append(lost, o.Job)
			continue
		}
		resumed.Items = append(resumed.Items, o)
	}
	return resumed, lost, nil
}
