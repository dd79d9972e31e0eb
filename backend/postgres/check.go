package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Check reports whether the schema of o is in the database and has the version that this program
// needs; it changes nothing. A schema that is missing, older or newer is a [*queue.SetupError],
// with [queue.ErrNewer] in it where it is newer. So is a sequence that gives IDs that are in use,
// which [RepairSequences] mends. Any role of docs/roles.sql may call it. It does not matter whether
// [Migrate] or a migration tool has run the steps.
func Check(ctx context.Context, db *sql.DB, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	b := Backend{db: db, options: o}
	if err := b.onOneConn(ctx, db, func(db queue.DB) error { return check(ctx, db, o.Schema) }); err != nil {
		return fmt.Errorf("postgres: check schema %q: %w", o.Schema, notSetUp(err, o.Schema, "check"))
	}
	return nil
}

// Check implements [driver.Checker] as the function [Check] does, on a connection of the pool.
// While handlers hold all of them, it waits for one.
func (b *Backend) Check(ctx context.Context) error {
	return b.run(ctx, "check", nil, func(db queue.DB) error { return check(ctx, db, b.options.Schema) })
}

func check(ctx context.Context, db queue.DB, schema string) error {
	version, hasJobs, err := readVersion(ctx, db, schema)
	switch {
	case err != nil:
		return err
	case !hasJobs:
		return missing(schema, nil)
	case version == 0:
		return unrecorded(schema)
	}
	if err := sqlkit.CheckVersion(version, lastVersion(), "postgres.Migrate"); err != nil {
		return err
	}
	return checkSequences(ctx, db, schema)
}

const insufficientPrivilege = "42501"

// notSetUp makes a [*queue.SetupError] of the server's answer that something in the schema is
// missing or may not be used by the operation. It returns any other error as it is.
func notSetUp(err error, schema, operation string) error {
	const (
		invalidSchema = "3F000"
		undefined     = "42P01 42703 42704 42883" // a table, a column, a type, a function
	)
	var setup *queue.SetupError
	code := sqlState(err)
	switch {
	case code == "" || errors.As(err, &setup):
		return err
	case code == insufficientPrivilege:
		return &queue.SetupError{Problem: fmt.Sprintf("the database's role lacks a right in the schema %q, which %s of docs/roles.sql has", schema, roleOf(operation)), Err: err}
	case code == invalidSchema || strings.Contains(undefined, code):
		return missing(schema, err)
	}
	return withCure(err)
}

// roleOf returns the role of docs/roles.sql that has the rights of an operation.
func roleOf(operation string) string {
	switch operation {
	case "check":
		return "every role"
	case "enqueue", "set schedules", "declare schedules", "delete schedules":
		return "errand_enqueuer"
	case "fire schedules", "receive":
		return "errand_worker with errand_enqueuer"
	case "cancel", "redrive", "edit", "delete", "pause", "pause schedules", "audit":
		return "errand_operator"
	case "list", "read job", "count", "backlog", "list rules", "tell of rates", "list workers", "list runs", "statistics", "schedules",
		"audit log":
		return "errand_observer"
	case "paused kinds":
		return "errand_worker or errand_observer"
	}
	return "errand_worker"
}

func missing(schema string, err error) error {
	return &queue.SetupError{Problem: fmt.Sprintf("the schema %q is not in this database, or is not complete: run postgres.Migrate with the same Options", schema), Err: err}
}

// unrecorded is the error of a schema whose tables were made without a record of their version.
func unrecorded(schema string) error {
	return &queue.SetupError{Problem: fmt.Sprintf("the schema %q has a table of jobs and no record of its version: create %[1]s.migrations as "+
		"the first of postgres.Migrations does, and insert the steps that have run", schema)}
}
