package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
	"github.com/errandhq/errand/queue"
)

// Check reports whether the tables of o are in the database and have the version that this program
// needs; it changes nothing. Tables that are missing, older or newer are a [*queue.SetupError],
// with [queue.ErrNewer] in it where they are newer. Where a tool other than [Migrate] ran the steps
// there is no record of a version, and Check looks only for the table of jobs.
func Check(ctx context.Context, db *sql.DB, o Options) error {
	steps, err := Migrations(o)
	if err != nil {
		return err
	}
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	err = writelock.RetryBusy(ctx, o.LockTimeout, func() error { return check(ctx, db, o.Prefix, steps[len(steps)-1].Version) })
	if err != nil {
		return fmt.Errorf("sqlite: check tables %s*: %w", o.Prefix, err)
	}
	return nil
}

func check(ctx context.Context, db *sql.DB, prefix string, known int) error {
	var jobs, records int
	err := db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = ?1 COLLATE NOCASE), count(*) FILTER (WHERE name = ?2 COLLATE NOCASE)
		FROM sqlite_schema WHERE type = 'table'`, prefix+"jobs", prefix+"migrations").Scan(&jobs, &records)
	switch {
	case err != nil:
		return err
	case jobs == 0:
		return &queue.SetupError{Problem: missing}
	case records == 0:
		return nil
	}
	var version int
	err = db.QueryRowContext(ctx, withPrefix(`SELECT coalesce(max(version), 0) FROM errand_migrations`, prefix)).Scan(&version)
	if err != nil {
		return err
	}
	return sqlkit.CheckVersion(version, known, "sqlite.Migrate")
}

const missing = "the tables are not in this file, or are not complete: run sqlite.Migrate with the same Options"

// notSetUp makes a [*queue.SetupError] of SQLite's answer that a table is missing or that the file
// may not be written. It returns any other error as it is. SQLite has one code for all mistakes in
// a statement, so the text tells.
func notSetUp(err error) error {
	var setup *queue.SetupError
	if err == nil || errors.As(err, &setup) {
		return err
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "no such table"), strings.Contains(text, "no such column"), strings.Contains(text, "has no column named"):
		return &queue.SetupError{Problem: missing, Err: err}
	case strings.Contains(text, "attempt to write a readonly database"):
		return &queue.SetupError{Problem: "this process may not write the file, or the folder that it is in", Err: err}
	}
	return err
}
