package middleware

import (
	"context"
	"database/sql"
	_ "embed"
	"time"
)

//go:embed dedup_sqlite_table.sql
var dedupSQLiteTable string

//go:embed dedup_sqlite_once.sql
var dedupSQLiteOnce string

//go:embed dedup_sqlite_sweep.sql
var dedupSQLiteSweep string

// rememberSQLite writes the key to a SQLite database. It returns false if the key is there and its
// window is not over. tx has the file's write lock, so no other transaction writes the key
// meanwhile.
func (s SQLDedup) rememberSQLite(ctx context.Context, tx *sql.Tx, key string, window time.Duration) (fresh bool, err error) {
	once, err := s.insertTable(dedupSQLiteOnce)
	if err != nil {
		return false, err
	}
	sweep, err := s.insertTable(dedupSQLiteSweep)
	if err != nil {
		return false, err
	}
	now := time.Now().UnixMicro()
	fresh, err = returnsRow(ctx, tx, once, key, now+window.Microseconds(), now)
	if err != nil || !fresh {
		return false, err
	}
	_, err = tx.ExecContext(ctx, sweep, now)
	return err == nil, err
}

// returnsRow runs a statement, and reports whether it returns a row.
func returnsRow(ctx context.Context, tx *sql.Tx, query string, args ...any) (ok bool, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	ok = rows.Next()
	return ok, rows.Err()
}
