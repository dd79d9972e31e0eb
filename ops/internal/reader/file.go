package reader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

const sqliteDialect = "sqlite"

// File is a SQLite database as doctor.Examine and explain.Job ask it. It is for one call of them.
type File struct {
	statements
	Tables driver.Tables
	Name   string // such as "SQLite 3.50.4"
	Path   string
}

// Row runs a statement that returns one row, outside of a transaction: one that is begun takes the
// write lock.
func (f *File) Row(ctx context.Context, query string, targets ...any) error {
	query = strings.ReplaceAll(query, "errand_", f.Tables.Schema)
	f.Note(query)
	return f.Tables.DB.QueryRowContext(ctx, query).Scan(targets...)
}

// FilePath is the statement that returns the path of the file.
const FilePath = "SELECT file FROM pragma_database_list WHERE name = 'main'"

// LockWait is how long doctor.Examine and explain.Job wait for SQLite's write lock.
const LockWait = time.Second

// TryWriteLock reports whether the write lock can be had within LockWait.
func (f *File) TryWriteLock(ctx context.Context) (isFree bool, err error) {
	conn, err := f.Tables.DB.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	var usual int
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&usual); err != nil {
		return false, err
	}
	set := func(ms int64) error {
		var got int
		return conn.QueryRowContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", ms)).Scan(&got)
	}
	if err := set(LockWait.Milliseconds()); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, set(int64(usual))) }()
	f.Note("BEGIN IMMEDIATE")
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		if text := err.Error(); strings.Contains(text, "locked") || strings.Contains(text, "SQLITE_BUSY") {
			return false, nil
		}
		return false, err
	}
	_, err = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return true, err
}

// Find returns the path of the file, "" if it cannot be known.
func (f *File) Find(ctx context.Context) string {
	if err := f.Row(ctx, FilePath, &f.Path); err != nil {
		return ""
	}
	return f.Path
}
