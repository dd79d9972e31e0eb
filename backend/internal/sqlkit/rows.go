package sqlkit

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/queue"
)

// QueryRows runs a query and calls scan for every row.
func QueryRows(ctx context.Context, db queue.DB, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}
