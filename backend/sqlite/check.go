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
// with [queue.ErrNewer] in it where they are newer. It does not matter whether [Migrate] or a
// migration tool has run the steps.
func Check(ctx context.Context, db *sql.DB, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	err = writelock.RetryBusy(ctx, o.LockTimeout, func() error { return check(ctx, db, o.Prefix) })
	if err != nil {
		return fmt.Errorf("sqlite: check tables %s*: %w", o.Prefix, err)
	}
	return nil
}

// Check implements [driver.Checker] as the function [Check] does. It also returns an error if the
// file at the path is not the one that was opened.
func (b *Backend) Check(ctx context.Context) error {
	err := b.id.check()
	if err == nil {
		err = writelock.RetryBusy(ctx, b.options.LockTimeout, func() error { return check(ctx, b.db, b.options.Prefix) })
	}
	return wrap(ctx, "check", err)
}

func check(ctx context.Context, db queue.DB, prefix string) error {
	version, hasJobs, err := readVersion(ctx, db, prefix)
	switch {
	case err != nil:
		return err
	case !hasJobs:
		return &queue.SetupError{Problem: missing}
	case version == 0:
		return unrecorded(prefix)
	}
	return sqlkit.CheckVersion(version, lastVersion(), "sqlite.Migrate")
}

// unrecorded returns the error for tables that were created without a record of their version.
func unrecorded(prefix string) error {
	return &queue.SetupError{Problem: fmt.Sprintf("there is a table %sjobs and no record of its version: create %[1]smigrations as the first step of "+
		"sqlite.Migrations does, and insert a row for each step that has run", prefix)}
}

const missing = "the tables are not in this file, or are not complete: run sqlite.Migrate with the same Options"

// notSetUp returns a [*queue.SetupError] if err says that a table is missing or that the file may
// not be written. It returns any other error as it is. It looks at the text, because SQLite has one
// code for all mistakes in a statement.
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
