package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
	"github.com/errandhq/errand/queue"
)

// Migration is one step from an empty database to the current tables.
type Migration struct {
	Version int    // 1 for the first step, and one more for each that follows
	Name    string // letters, digits and underscores
	SQL     string // to be run as a whole, in one transaction
}

// Migrations returns the steps in their order, with the prefix of o, for teams that run them with a
// migration tool. Each step records its version, as [Migrate] does, so Migrate, [Check] and a tool
// may follow one another in any order. A step fails and changes nothing if it has run before, or if
// the step before it has not. There are no steps back; [DropSQL] removes everything. The error is a
// [*queue.InvalidError].
func Migrations(o Options) ([]Migration, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	before := sqlkit.ReadFile(sqlFiles, "sql/migrations_table.sql") + "\n"
	var list []Migration
	for _, m := range sqlkit.Migrations(sqlFiles, "sql/migrations") {
		text := before + m.SQL + sqlkit.RecordMigration(m, "errand_migrations")
		list = append(list, Migration{m.Version, m.Name, withPrefix(text, o.Prefix)})
		before = ""
	}
	return list, nil
}

// DropSQL returns the SQL that removes what the steps of [Migrations] have made, with all jobs: run
// it as a whole, in one transaction, when no worker is alive. What is not there is passed over.
// Triggers of others on errand's tables are dropped with them, and views that name them stay. So
// does errand_dedup, the table of middleware.SQLDedup. The file stays in WAL mode. errand migrate
// down prints it. The error is a [*queue.InvalidError].
func DropSQL(o Options) (string, error) {
	o, err := o.withDefaults()
	if err != nil {
		return "", err
	}
	return withPrefix(sqlkit.ReadFile(sqlFiles, "sql/drop.sql"), o.Prefix), nil
}

// Migrate brings the tables of o up to date. It puts the file in WAL mode and runs the missing
// steps in one transaction that has the write lock, so any number of processes may call it at any
// time. If no step is missing, it changes nothing. If a newer program has migrated the tables, the
// error is a [*queue.SetupError] that wraps [queue.ErrNewer].
func Migrate(ctx context.Context, db *sql.DB, o Options) error {
	steps, err := Migrations(o)
	if err != nil {
		return err
	}
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	s, err := ensureWAL(ctx, db, o)
	if err != nil {
		return err
	}
	if err := s.check(o); err != nil {
		return err
	}
	if err := migrateInTurn(ctx, db, fileAt(s.path), o, steps); err != nil {
		return fmt.Errorf("sqlite: migrate tables %s*: %w", o.Prefix, err)
	}
	return nil
}

// migrateInTurn migrates in a turn of its own. Without a turn it might never find the lock free
// beside workers, which take turns.
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
	uncancelled := context.WithoutCancel(ctx) // nothing below may be interrupted halfway
	if _, err := conn.ExecContext(uncancelled, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := runSteps(uncancelled, conn, prefix, steps); err != nil {
		_, undoing := conn.ExecContext(uncancelled, "ROLLBACK")
		return errors.Join(err, undoing)
	}
	return nil
}

// runSteps runs the missing migrations, and commits.
func runSteps(ctx context.Context, conn *sql.Conn, prefix string, steps []Migration) error {
	version, hasJobs, err := readVersion(ctx, conn, prefix)
	if err == nil && hasJobs && version == 0 {
		err = unrecorded(prefix)
	}
	if err == nil {
		err = sqlkit.CheckNotNewer(version, steps[len(steps)-1].Version)
	}
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step.Version <= version {
			continue
		}
		if _, err := conn.ExecContext(ctx, step.SQL); err != nil {
			return fmt.Errorf("%04d_%s: %w", step.Version, step.Name, err)
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

// lastVersion returns the version of the last step.
func lastVersion() int {
	steps := sqlkit.Migrations(sqlFiles, "sql/migrations")
	return steps[len(steps)-1].Version
}

// readVersion returns the version of the last step that has run, or 0 for none. hasJobs reports
// whether the jobs table exists.
func readVersion(ctx context.Context, db queue.DB, prefix string) (version int, hasJobs bool, err error) {
	var hasRecord bool
	err = sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&hasJobs, &hasRecord) },
		`SELECT count(*) FILTER (WHERE name = ?1 COLLATE NOCASE), count(*) FILTER (WHERE name = ?2 COLLATE NOCASE)
		FROM sqlite_schema WHERE type = 'table'`, prefix+"jobs", prefix+"migrations")
	if err != nil || !hasRecord {
		return 0, hasJobs, err
	}
	err = sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&version) },
		withPrefix(`SELECT coalesce(max(version), 0) FROM errand_migrations`, prefix))
	return version, hasJobs, err
}
