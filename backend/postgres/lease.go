package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

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
		lostIDs, err := b.queryIDs(ctx, "extend", nil, b.sql.extend, ids, fences, held.Worker, sqlkit.Microseconds(lease))
		if err != nil {
			return lost, err
		}
		lost = append(lost, held.With(lostIDs)...)
	}
	return lost, nil
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
