package postgres

import (
	"context"
	"database/sql"
	"slices"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// throttle empties the buckets of the outcomes that throttle, with sql/throttle.sql. It sends
// nothing if there are none, or if the caller does not hold their jobs.
func (b *Backend) throttle(ctx context.Context, db queue.DB, outcomes []queue.Outcome) error {
	if !slices.ContainsFunc(outcomes, func(o queue.Outcome) bool { return o.Throttle }) {
		return nil
	}
	queues, groups, delays, err := b.throttled(ctx, db, outcomes)
	if err != nil || len(queues.text) == 0 {
		return err
	}
	return b.run(ctx, "settle", nil, func(db queue.DB) error {
		_, err := db.ExecContext(ctx, b.sql["throttle"], queues.String(), groups.String(), delays.String())
		return err
	})
}

// throttled reads the queues and groups of the jobs that throttle, with sql/throttled.sql, because
// a gateway knows only the id, fence and worker of a job. It leaves out jobs that the caller does
// not hold, and those of ClaimTx, whose queues have no rates.
func (b *Backend) throttled(ctx context.Context, db queue.DB, outcomes []queue.Outcome) (queues, groups, delays array, err error) {
	var ids, fences, workers, asked array
	for _, o := range outcomes {
		if o.Throttle {
			ids.int(o.Job.ID)
			fences.int(o.Job.Fence)
			workers.string(o.Job.Worker)
			asked.int(int64(max(o.Delay, 0)))
		}
	}
	err = b.run(ctx, "settle", db, func(db queue.DB) error {
		queues, groups, delays = array{}, array{}, array{}
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var name, group string
			var delay int64
			err := rows.Scan(&name, &group, &delay)
			queues.string(name)
			groups.string(group)
			delays.int(delay)
			return err
		}, b.sql["throttled"], ids.String(), fences.String(), workers.String(), asked.String())
	})
	return queues, groups, delays, err
}
