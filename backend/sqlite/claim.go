package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// operationExtend is the operation that writes before all others that wait.
const operationExtend = "extend"

// maxAttempt is the highest attempt that is counted: 32 bits, as on PostgreSQL.
const maxAttempt = math.MaxInt32

// maxLevels is how many priorities of a queue are asked for one by one.
const maxLevels = 100

// Claim implements [queue.Consumer]: sql/level.sql and sql/due.sql find the jobs, sql/fence.sql and
// sql/take.sql claim them. Where no job is due it only reads; otherwise it waits for its turn to
// write. On a file with one writer no claim meets a locked row.
func (b *Backend) Claim(ctx context.Context, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("sqlite: claim: %w", err)
	}
	err = b.read(ctx, "claim", func(db queue.DB) error {
		jobs, err = b.find(ctx, db, withLimit(req, 1))
		return err
	})
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	err = b.write(ctx, "claim", func(ctx context.Context, db queue.DB) (err error) {
		jobs, err = b.claim(ctx, db, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

func (b *Backend) claim(ctx context.Context, db queue.DB, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	fence, err := b.drawFence(ctx, db)
	if err != nil {
		return nil, err
	}
	if jobs, err = b.find(ctx, db, req); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, errUndo
	}
	var ids list
	for _, job := range jobs {
		job.Attempt = min(job.Attempt, maxAttempt-1) + 1
		job.Fence, job.Worker = fence, req.Worker
		ids.int(job.ID)
	}
	at := now()
	_, err = exec(ctx, db, b.sql.take, ids.String(), fence, at, at+sqlkit.Microseconds(req.Lease), req.Worker)
	return jobs, err
}

// drawFence is the first statement of a transaction that claims.
func (b *Backend) drawFence(ctx context.Context, db queue.DB) (fence int64, err error) {
	err = queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&fence) }, b.sql.fence)
	return fence, err
}

// find returns the jobs that are due, in order, up to the request's Limit and Bytes.
func (b *Backend) find(ctx context.Context, db queue.DB, req queue.ClaimRequest) ([]*queue.Job, error) {
	at := now()
	var k basket
	for i, name := range req.Queues {
		if slices.Contains(req.Queues[:i], name) {
			continue
		}
		if err := b.findIn(ctx, db, name, at, &k, req); err != nil {
			return nil, err
		}
		if k.isFull(req) {
			break
		}
	}
	return k.jobs, nil
}

// withLimit is req with another Limit.
func withLimit(req queue.ClaimRequest, limit int) queue.ClaimRequest {
	req.Limit = limit
	return req
}

// kindsOf is the JSON array of the kinds that are wanted, or NULL.
func kindsOf(req queue.ClaimRequest) any {
	if len(req.Kinds) == 0 {
		return nil
	}
	return stringList(req.Kinds)
}

// findIn adds the due jobs of a queue, priority by priority: between the due jobs of two priorities
// lie the scheduled ones, which may be many.
func (b *Backend) findIn(ctx context.Context, db queue.DB, name string, at int64, k *basket, req queue.ClaimRequest) error {
	level := int64(math.MinInt64)
	for range maxLevels {
		var next sql.NullInt64
		err := queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&next) }, b.sql.level, name, level)
		if err != nil || !next.Valid {
			return err
		}
		level = next.Int64
		err = k.fill(ctx, db, name, req, b.sql.due, name, level, at, req.Limit-len(k.jobs), kindsOf(req))
		if err != nil || k.isFull(req) {
			return err
		}
	}
	return k.fill(ctx, db, name, req, b.sql.dueBeyond, name, level, at, req.Limit-len(k.jobs), kindsOf(req))
}

// Extend implements [queue.Consumer] with sql/extend.sql: in one transaction, one statement for
// each claim that the jobs come from. It waits while another transaction has the write lock,
// whichever rows that one has changed: SQLite locks no rows.
func (b *Backend) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost []*queue.Job, err error) {
	if err := queue.CheckLease(lease); err != nil {
		return nil, fmt.Errorf("sqlite: extend: %w", err)
	}
	if slices.Contains(jobs, nil) {
		return nil, fmt.Errorf("sqlite: extend: %w", sqlkit.Invalid("Job", "nil"))
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	groups, stale := byClaim(jobs, func(j *queue.Job) *queue.Job { return j })
	err = b.write(ctx, operationExtend, func(ctx context.Context, db queue.DB) error {
		lost = slices.Clone(stale)
		at := now()
		for _, g := range groups {
			ids, err := queryIDs(ctx, db, b.sql.extend, idsOf(g), g.fence, g.Worker, at, at+sqlkit.Microseconds(lease))
			if err != nil {
				return err
			}
			lost = append(lost, g.Without(ids)...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// Reclaim implements [queue.Reclaimer] with sql/reclaim.sql. Where no lease has expired it only
// reads.
func (b *Backend) Reclaim(ctx context.Context, limit int) (jobs []*queue.Job, err error) {
	if limit < 1 {
		return nil, fmt.Errorf("sqlite: reclaim: %w", sqlkit.Invalid("Limit", "%d: at least 1", limit))
	}
	b.emptyWAL(ctx)
	var expired []int64
	err = b.read(ctx, "reclaim", func(db queue.DB) (err error) {
		expired, err = queryIDs(ctx, db, b.sql.expired, now(), limit)
		return err
	})
	if err != nil || len(expired) == 0 {
		return nil, err
	}
	var back returned
	err = b.write(ctx, "reclaim", func(ctx context.Context, db queue.DB) (err error) {
		back = returned{}
		if jobs, err = queryJobs(ctx, db, b.sql.reclaim, now(), idList(expired)); err != nil {
			return err
		}
		for _, job := range jobs {
			if job.Attempt < job.MaxAttempts { // else it is dead
				back.add(job.Queue)
			}
		}
		return b.rouse(ctx, db, &back)
	})
	if err != nil {
		return nil, err
	}
	b.wakeReturned(true, back)
	return jobs, nil
}
