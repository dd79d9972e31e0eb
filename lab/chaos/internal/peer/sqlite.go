package peer

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// File is a system whose database is a file.
type File interface {
	Engine
	// Check checks the whole file, and if thorough also its indexes. It returns "ok", or the first
	// errors.
	Check(ctx context.Context, thorough bool) (string, error)
}

// inFile is errand on SQLite.
type inFile struct{ errand }

func openSQLite(_ context.Context, path string, connections int) (Peer, error) {
	db, err := sqlite.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	keeping := func(completed time.Duration) (queue.Queue, error) {
		return sqlite.New(db, sqlite.Options{Retention: queue.Retention{Completed: completed}})
	}
	q, err := keeping(0)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &inFile{errand{db, q, table{
		keeping: keeping,
		install: func(ctx context.Context) error { return installSQLite(ctx, db) },
		jobs:    sqliteJobs,
		live:    `SELECT (SELECT count(*) FROM errand_jobs WHERE status = 'pending') + (SELECT count(*) FROM errand_jobs WHERE status = 'running')`,
	}}}, nil
}

// installSQLite keeps no connection open afterwards. The process that installs only reads now and
// then. When all others have been killed, the next process must find the file as they left it.
func installSQLite(ctx context.Context, db *sql.DB) error {
	err := sqlite.Migrate(ctx, db, sqlite.Options{})
	db.SetMaxIdleConns(0)
	return err
}

const sqliteJobs = `SELECT payload ->> 'number', status, attempts, coalesce(locked_by, ''), coalesce(last_error, ''),
	updated_at, concat_ws(' | ', status, attempts, fence, locked_by, scheduled_at, updated_at, last_error)
	FROM errand_jobs WHERE ?1 = '' OR status = 'running' AND locked_by = ?1`

func (f *inFile) Engine(ctx context.Context) (engine string, err error) {
	err = f.db.QueryRowContext(ctx, `SELECT 'SQLite ' || sqlite_version()`).Scan(&engine)
	return engine, err
}

func (f *inFile) Check(ctx context.Context, thorough bool) (string, error) {
	pragma := "PRAGMA quick_check(3)"
	if thorough {
		pragma = "PRAGMA integrity_check(3)"
	}
	rows, err := f.db.QueryContext(ctx, pragma)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", err
		}
		found = append(found, line)
	}
	return strings.Join(found, "; "), rows.Err()
}
