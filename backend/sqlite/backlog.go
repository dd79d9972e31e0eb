package sqlite

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Backlogs implements [queue.Backlogger] with sql/backlog.sql. It costs a look-up of the index,
// some 10 µs, for each queue and each of its priorities in use. It reads at most the 1,000 most
// urgent priorities of a queue, and at most 10,000 in all, of all queues in turn. It leaves out the
// others.
func (b *Backend) Backlogs(ctx context.Context) (backlogs []queue.Backlog, err error) {
	err = b.read(ctx, "backlog", func(db queue.DB) error {
		backlogs = nil
		at := now()
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			var waiting queue.Backlog
			var since int64
			err := rows.Scan(&waiting.Queue, &since)
			waiting.Age = sqlkit.Duration(at - max(since, earliest))
			backlogs = append(backlogs, waiting)
			return err
		}, b.sql.backlog, at)
	})
	return backlogs, err
}
