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

// QueryAll runs a query, and returns what scan reads of each row, also of the rows before an error.
func QueryAll[T any](ctx context.Context, db queue.DB, scan func(*sql.Rows, *T) error, query string, args ...any) (all []T, err error) {
	err = QueryRows(ctx, db, func(rows *sql.Rows) error {
		var item T
		if err := scan(rows, &item); err != nil {
			return err
		}
		all = append(all, item)
		return nil
	}, query, args...)
	return all, err
}

// ScanValue is the scan of [QueryAll] for rows of one column.
func ScanValue[T any](rows *sql.Rows, value *T) error { return rows.Scan(value) }
