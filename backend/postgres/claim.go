package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// Claim implements [queue.Consumer] with sql/claim.sql, which scans the queues from their heads
// unless claims are rationed (see ration.go). It takes at most 100,000 jobs.
func (b *Backend) Claim(ctx context.Context, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	if err := b.releaseLost(ctx, req.Worker); err != nil {
		return nil, err
	}
	r := b.rations.of(req)
	if r.isRationed() {
		return b.claimRationed(ctx, req, r)
	}
	started := time.Now()
	jobs, _, err = b.claimWhole(ctx, req, wholeQueues(req.Queues))
	if err == nil {
		b.rationIfCostly(ctx, req, r, time.Since(started), len(jobs))
	}
	return jobs, err
}

// claimFrom runs sql/claim.sql once. Jobs come without their payload and headers if one of them
// takes more than longest bytes in the table.
func (b *Backend) claimFrom(ctx context.Context, req queue.ClaimRequest, all []stretch, longest int64) (jobs []*queue.Job, err error) {
	queues, priorities, dues, ids, lasts, untils := stretchArrays(all)
	sent, after := time.Now(), b.lostClaims.lastFence()
	err = b.run(ctx, "claim", nil, func(db queue.DB) error {
		jobs, err = queryJobs(ctx, db, req.Worker, req.Limit, req.MaxBytes(), b.sql.claim, queues, kinds(req), req.Limit,
			sqlkit.Microseconds(req.Lease), req.Worker, priorities, dues, ids, longest, lasts, untils)
		if err != nil && !isRefused(err) && !isUnsent(err) {
			b.lostClaims.noteLost(req, sent, after)
		}
		return asLockBusy(err)
	})
	switch {
	case errors.Is(err, queue.ErrUnknown): // the commit was not answered
		b.lostClaims.noteLost(req, sent, after)
	case err == nil && len(jobs) > 0:
		b.lostClaims.noteAnswered(req.Worker, jobs[0].Fence)
	}
	return jobs, err
}

// transaction is the holder of a job of ClaimTx while it is settled.
const transaction = "transaction"

// ClaimTx implements [queue.TxClaimer] with sql/claim_tx.sql. tx may also be a [*sql.Conn] on which
// a transaction was begun by hand, as PREPARE TRANSACTION needs it. A job that cannot be read makes
// the call and the transaction fail, and is then dead. If completed jobs are not kept, the next
// Prune removes the job.
func (b *Backend) ClaimTx(ctx context.Context, tx queue.DB, req queue.ClaimRequest) (*queue.Job, error) {
	req.Limit, req.Lease, req.Worker = 1, time.Second, transaction
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	if err := checkTx(ctx, tx); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	var jobs []*queue.Job
	err := b.run(ctx, "claim", tx, func(db queue.DB) (err error) {
		jobs, err = queryJobs(ctx, db, "", 1, 0, b.sql.claimTx, textArray(req.Queues), kinds(req))
		return err
	})
	if isDataError(err) {
		return nil, errors.Join(err, b.settleUnreadable(ctx, req))
	}
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return jobs[0], nil
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

// Reclaim implements [queue.Reclaimer] with sql/reclaim.sql.
func (b *Backend) Reclaim(ctx context.Context, limit int) (jobs []*queue.Job, err error) {
	if limit < 1 {
		return nil, fmt.Errorf("postgres: reclaim: %w", sqlkit.Invalid("Limit", "%d: at least 1", limit))
	}
	err = b.run(ctx, "reclaim", nil, func(db queue.DB) error {
		jobs, err = queryJobs(ctx, db, "", 0, 0, b.sql.reclaim, limit)
		return err
	})
	if sqlState(err) == lockNotAvailable {
		return nil, nil // the holder that has locked the row is about to settle or extend it
	}
	return jobs, err
}

// Extend implements [queue.Consumer] with sql/extend.sql, one statement for the jobs of each
// holder.
func (b *Backend) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost []*queue.Job, err error) {
	if err := queue.CheckLease(lease); err != nil {
		return nil, fmt.Errorf("postgres: extend: %w", err)
	}
	if slices.Contains(jobs, nil) {
		return nil, fmt.Errorf("postgres: extend: %w", sqlkit.Invalid("Job", "nil"))
	}
	groups, lost := sqlkit.ByWorker(jobs, func(j *queue.Job) *queue.Job { return j })
	for _, held := range groups {
		ids, fences := arraysOf(held)
		gone, err := b.queryIDs(ctx, "extend", nil, b.sql.extend, ids, fences, held.Worker, sqlkit.Microseconds(lease))
		if err != nil {
			return lost, err
		}
		lost = append(lost, held.With(gone)...)
	}
	return lost, nil
}

// queryJobs reads the columns that sql/claim.sql returns. It expects about size jobs, and drops
// payloads and headers once they take more than room bytes together.
func queryJobs(ctx context.Context, db queue.DB, worker string, size, room int, query string, args ...any) ([]*queue.Job, error) {
	jobs := make([]*queue.Job, 0, min(size, 1000))
	var headers []byte
	var priority, attempt, most int64 // database/sql copies these types and prints and parses others
	err := sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
		job := &queue.Job{Worker: worker} // alone: in a block, one slow job would keep all payloads
		err := rows.Scan(&job.ID, &job.Queue, &job.Kind, (*[]byte)(&job.Payload), &priority, &job.ScheduledAt,
			&attempt, &most, &job.Fence, &job.CreatedAt, &job.Key, &headers, &job.LastError)
		if err != nil {
			return err
		}
		job.Priority, job.Attempt, job.MaxAttempts = int32(priority), int(attempt), int(most)
		if room -= len(job.Payload) + len(headers); room < 0 && len(jobs) > 0 {
			job.Payload, headers = nil, nil
		}
		job.Headers = sqlkit.DecodeHeaders(headers)
		jobs = append(jobs, job)
		return nil
	}, query, args...)
	return jobs, err
}

// sortClaimed sorts claimed jobs. The statement returns them as they lie in the table.
func sortClaimed(jobs []*queue.Job, queues []string) {
	slices.SortFunc(jobs, func(a, b *queue.Job) int {
		if a.Queue != b.Queue {
			return cmp.Compare(slices.Index(queues, a.Queue), slices.Index(queues, b.Queue))
		}
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.ScheduledAt.Compare(b.ScheduledAt), cmp.Compare(a.ID, b.ID))
	})
}

// kinds returns the parameter for the request's kinds, nil for all.
func kinds(req queue.ClaimRequest) any {
	if len(req.Kinds) == 0 {
		return nil
	}
	return textArray(req.Kinds)
}
