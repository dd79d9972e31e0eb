package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

// Migration is one step from an empty database to the current tables.
type Migration struct {
	Version int
	Name    string
	SQL     string // to be run as a whole, in one transaction
}

// Migrations lists the steps in their order with the prefix of o in place, for
// those who run them with a tool of their own. The error is a [*queue.InvalidError].
func Migrations(o Options) ([]Migration, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, m := range sqlkit.Migrations(sqlFiles, "sql/migrations") {
		list = append(list, Migration{m.Version, m.Name, withPrefix(m.SQL, o.Prefix)})
	}
	return list, nil
}

// Migrate brings the tables of o up to date: it puts the file in WAL mode and creates what is
// missing, in one transaction that has the write lock, so any number of processes may call it at
// any time; where there is nothing to do it changes nothing. Tables that a newer program has
// migrated are a [*queue.SetupError] with [queue.ErrNewer] in it.
func Migrate(ctx context.Context, db *sql.DB, o Options) error {
	steps, err := Migrations(o)
	if err != nil {
		return err
	}
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	found, err := examine(ctx, db, o)
	if err != nil {
		return err
	}
	if err := found.check(o); err != nil {
		return err
	}
	if err := migrateInTurn(ctx, db, fileAt(found.path), o, steps); err != nil {
		return fmt.Errorf("sqlite: migrate tables %s*: %w", o.Prefix, err)
	}
	return nil
}

// migrateInTurn migrates when it is its turn: beside workers that take turns it would never find
// the lock free.
func migrateInTurn(ctx context.Context, db *sql.DB, f *file, o Options, steps []Migration) error {
	t, err := f.lock.Acquire(ctx, writelock.Ordinary, o.LockTimeout, func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	defer t.Release(false)
	return t.Try(ctx, func() error { return migrate(ctx, db, o.Prefix, steps) })
}

func migrate(ctx context.Context, db *sql.DB, prefix string, steps []Migration) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	whole := context.WithoutCancel(ctx) // what follows is over soon, or not at all
	if _, err := conn.ExecContext(whole, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := takeSteps(whole, conn, prefix, steps); err != nil {
		_, undoing := conn.ExecContext(whole, "ROLLBACK")
		return errors.Join(err, undoing)
	}
	return nil
}

// takeSteps takes those that have not been taken, and commits.
func takeSteps(ctx context.Context, conn *sql.Conn, prefix string, steps []Migration) error {
	if _, err := conn.ExecContext(ctx, withPrefix(sqlkit.ReadFile(sqlFiles, "sql/migrations_table.sql"), prefix)); err != nil {
		return err
	}
	var version int
	err := conn.QueryRowContext(ctx, withPrefix(`SELECT coalesce(max(version), 0) FROM errand_migrations`, prefix)).Scan(&version)
	if err != nil {
		return err
	}
	if err := sqlkit.CheckNotNewer(version, steps[len(steps)-1].Version); err != nil {
		return err
	}
	for _, step := range steps {
		if step.Version <= version {
			continue
		}
		if _, err := conn.ExecContext(ctx, step.SQL); err != nil {
			return fmt.Errorf("%04d_%s: %w", step.Version, step.Name, err)
		}
		record := withPrefix(`INSERT INTO errand_migrations (version, name) VALUES (?1, ?2)`, prefix)
		if _, err := conn.ExecContext(ctx, record, step.Version, step.Name); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
