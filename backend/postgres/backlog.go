package postgres

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Backlogs implements [driver.Inspector] with sql/backlog.sql. It costs one look-up of the index,
// some 10 µs, for each priority that a queue uses. It covers the 1,000 most urgent priorities of a
// queue and 10,000 in all, in the order of the queues, and leaves out the rest.
func (b *Backend) Backlogs(ctx context.Context) (backlogs []driver.Backlog, err error) {
	err = b.run(ctx, "backlog", nil, func(db queue.DB) error {
		backlogs = nil
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var waiting driver.Backlog
			var age int64
			err := rows.Scan(&waiting.Queue, &age)
			waiting.Age = sqlkit.Duration(age)
			backlogs = append(backlogs, waiting)
			return err
		}, b.sql["backlog"])
	})
	return backlogs, err
}
