package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// transaction is the holder of a job of ClaimTx while it is settled.
const transaction = "transaction"

// ClaimTx implements [driver.TxClaimer] with sql/claim_tx.sql. tx may also be a [*sql.Conn] on
// which a transaction was begun by hand, as PREPARE TRANSACTION needs it. A job that cannot be read
// makes the call and the transaction fail, and is then dead. If completed jobs are not kept, the
// next Prune removes the job.
func (b *Backend) ClaimTx(ctx context.Context, tx queue.DB, req queue.ClaimRequest) (*queue.Job, error) {
	req.Limit, req.Lease, req.Worker = 1, time.Second, transaction
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	if err := checkTx(ctx, tx); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	var jobs []*queue.Job
	unlock := b.lockBadClaims(ctx)
	defer unlock()
	err := b.run(ctx, "claim", tx, func(db queue.DB) (err error) {
		jobs, err = b.queryTx(ctx, db, req)
		return err
	})
	if isDataError(err) {
		return nil, errors.Join(err, b.settleUnreadable(ctx, req))
	}
	if isOfRow(err) {
		refused := b.findBadClaims(ctx, req)
		b.badRows.claims.Note(b.options.Logger, "claim", refused)
		if len(refused) > 0 {
			err = fmt.Errorf("postgres: claim: %w", badrows.AsError(refused))
		}
	}
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return jobs[0], nil
}

// queryTx claims a job in db with sql/claim_tx.sql, unless a queue is limited by the rules that db
// sees.
func (b *Backend) queryTx(ctx context.Context, db queue.DB, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	known := b.rules.known()
	for fresh := false; ; fresh = true {
		if name, ok := known.firstLimited(req.Queues); ok && fresh {
			return nil, limits.InTransaction(name)
		} else if !ok {
			rows := newJobRows("", 1, 0)
			err = sqlkit.QueryRows(ctx, db, rows.scan, b.sql["claim_tx"], textArray(req.Queues), kinds(req), known.version)
			jobs = rows.jobs
			if err != nil || len(jobs) == 0 || jobs[0].ID != 0 {
				return jobs, err
			}
		}
		if known, err = b.readRules(ctx, db); err != nil {
			return nil, err
		}
	}
}

// checkTx returns a [*queue.InvalidError] unless db is a transaction, or a connection on which one
// was begun by hand. On any other handle the claimed job would be completed at once.
func checkTx(ctx context.Context, db queue.DB) error {
	kind, err := handle.Of(db)
	switch {
	case err != nil:
		return err
	case kind == handle.Conn:
		return checkInTx(ctx, db)
	case kind != handle.Tx:
		return sqlkit.Invalid("DB", "%T: not a transaction, which has Commit and Rollback", db)
	}
	return nil
}

const (
	// unreadableTimeout bounds settleUnreadable, whose caller may hold the pool's last connection.
	unreadableTimeout = 10 * time.Second
	// unreadableWorker is the holder of the job meanwhile.
	unreadableWorker = "errand-unreadable"
)

// settleUnreadable makes the job dead that ClaimTx has failed to read, in a transaction of its own.
func (b *Backend) settleUnreadable(ctx context.Context, req queue.ClaimRequest) error {
	ctx, cancel := context.WithTimeout(ctx, unreadableTimeout)
	defer cancel()
	b.readSingly.Store(1)
	req.Lease, req.Worker, req.Shared = time.Minute, unreadableWorker, true
	jobs, _, err := b.claimWithPayloads(ctx, req, b.spansClaim(unordered(wholeQueues(req.Queues)), false, b.rules.known().version, fullPatience))
	for _, job := range jobs {
		if job.Unreadable == nil {
			b.release(ctx, releases(jobs)...)
			continue
		}
		_, err = b.Settle(ctx, nil, queue.Outcome{Job: job, Action: queue.Dead, Err: job.Unreadable})
	}
	return err
}
