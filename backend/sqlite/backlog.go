package sqlite

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Backlogs implements [driver.Inspector] with sql/backlog.sql. For each queue and each of its
// priorities in use it looks into the index once, which takes some 10 µs. It reads at most the
// 1,000 most urgent priorities of a queue, and at most 10,000 in all, taken from the queues in
// turn. It leaves out the others.
func (b *Backend) Backlogs(ctx context.Context) (backlogs []driver.Backlog, err error) {
	err = b.read(ctx, "backlog", func(db queue.DB) error {
		backlogs = nil
		at := now()
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			var waiting driver.Backlog
			var since int64
			err := rows.Scan(&waiting.Queue, &since)
			waiting.Age = sqlkit.Duration(at - max(since, earliest))
			backlogs = append(backlogs, waiting)
			return err
		}, b.sql["backlog"], at)
	})
	return backlogs, err
}
