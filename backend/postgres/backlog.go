package postgres

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue/driver"
)

// Backlogs implements [driver.Inspector] with sql/backlog.sql. It costs one look-up of the index,
// some 10 µs, for each priority that a queue uses. It covers the 1,000 most urgent priorities of a
// queue and 10,000 in all, in the order of the queues, and leaves out the rest.
func (b *Backend) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	return readAll(ctx, b, "backlog", func(rows *sql.Rows, waiting *driver.Backlog) error {
		var age int64
		err := rows.Scan(&waiting.Queue, &age)
		waiting.Age = sqlkit.Duration(age)
		return err
	}, b.sql["backlog"])
}
