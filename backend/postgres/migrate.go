package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Migration is one step from an empty database to the current schema.
type Migration struct {
	Version int    // 1 for the first step, and one more for each that follows
	Name    string // letters, digits and underscores
	SQL     string // to be run as a whole, in one transaction
}

// Migrations lists the steps in their order with the schema of o in place, for teams that run them
// with a migration tool. The first step creates the schema if it does not exist. Each step records
// its version in the schema, as [Migrate] does, so Migrate, [Check] and a tool may follow one
// another in any order. A step fails and changes nothing if it has run before, or if the step
// before it has not. There are no steps back; [DropSQL] removes everything. The error is a
// [*queue.InvalidError].
func Migrations(o Options) ([]Migration, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lock := lockMigrations(o.Schema)
	before := lock + sqlkit.ReadFile(sqlFiles, "sql/migrations_table.sql") + "\n"
	var list []Migration
	for _, m := range sqlkit.Migrations(sqlFiles, "sql/migrations") {
		text := before + m.SQL + sqlkit.RecordMigration(m, "errand.migrations")
		list = append(list, Migration{m.Version, m.Name, inSchema(text, o.Schema)})
		before = lock
	}
	return list, nil
}

// DropSQL returns the SQL that removes what the steps of [Migrations] have made, with all jobs: run
// it as a whole, in one transaction, when no worker is alive. It leaves what others have made in
// the schema, and fails and changes nothing if that depends on errand's tables. Without it nothing
// is left, and the schema is dropped as well. What is not there is passed over. Its first statement
// takes the lock of the steps. errand migrate down prints it. The error is a [*queue.InvalidError].
func DropSQL(o Options) (string, error) {
	o, err := o.withDefaults()
	if err != nil {
		return "", err
	}
	return lockMigrations(o.Schema) + inSchema(sqlkit.ReadFile(sqlFiles, "sql/drop.sql"), o.Schema), nil
}

// lockMigrations returns the SQL that takes the lock of a step.
func lockMigrations(schema string) string {
	return fmt.Sprintf("-- One step at a time. postgres.Migrate takes the same lock.\nSELECT pg_advisory_xact_lock(%d);\n\n", lockKey("migrate", schema))
}

// Migrate brings the schema of o up to date: it creates what is missing. Each step is one
// transaction under an advisory lock, so any number of processes may call it at any time. If there
// is nothing to do it changes nothing. A step never waits longer than two seconds for a lock on a
// table, because all other calls wait behind it. Then it releases the lock, pauses three seconds
// and retries, until ctx ends. A schema that a newer program has migrated is a [*queue.SetupError]
// with [queue.ErrNewer] in it. Migrate needs the right to create a schema in the database the first
// time, and a database in UTF-8. The steps are those of [Migrations].
func Migrate(ctx context.Context, db *sql.DB, o Options) error {
	steps, err := Migrations(o)
	if err != nil {
		return err
	}
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	for more := true; more && err == nil; {
		err = withRetry(ctx, func() (err error) {
			more, err = migrateOnce(ctx, db, o.Schema, steps)
			return err
		})
		if sqlState(err) == lockNotAvailable {
			more, err = true, pause(ctx, migratePause)
		}
	}
	if err != nil {
		return fmt.Errorf("postgres: migrate schema %q: %w", o.Schema, err)
	}
	return nil
}

const (
	// limitLockWait is longer than deadlock_timeout, after which autovacuum gives way.
	limitLockWait = "SET LOCAL lock_timeout = '2s'"
	migratePause  = 3 * time.Second
)

// migrateOnce runs the first missing step, and reports whether there are more.
func migrateOnce(ctx context.Context, db *sql.DB, schema string, steps []Migration) (more bool, err error) {
	// READ COMMITTED, so that later statements see the steps of the process that held the lock.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1::bigint)`, lockKey("migrate", schema)); err != nil {
		return false, err
	}
	version, hasJobs, err := readVersion(ctx, tx, schema)
	if err == nil && hasJobs && version == 0 {
		err = unrecorded(schema)
	}
	if err != nil {
		return false, err
	}
	last := steps[len(steps)-1].Version
	if err := sqlkit.CheckNotNewer(version, last); err != nil {
		return false, err
	}
	i := slices.IndexFunc(steps, func(s Migration) bool { return s.Version > version })
	if i < 0 {
		return false, tx.Commit()
	}
	if err := takeStep(ctx, tx, steps[i]); err != nil {
		return false, fmt.Errorf("%04d_%s: %w", steps[i].Version, steps[i].Name, err)
	}
	return steps[i].Version < last, tx.Commit()
}

func takeStep(ctx context.Context, tx *sql.Tx, step Migration) error {
	for _, text := range []string{limitLockWait, step.SQL} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// lastVersion returns the version of the last step.
func lastVersion() int {
	steps := sqlkit.Migrations(sqlFiles, "sql/migrations")
	return steps[len(steps)-1].Version
}

// readVersion returns the version of the last step that has run, 0 for none, and whether the table
// of jobs is there.
func readVersion(ctx context.Context, db queue.DB, schema string) (version int, hasJobs bool, err error) {
	var hasRecord bool
	err = sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&hasJobs, &hasRecord) },
		`SELECT to_regclass($1::text) IS NOT NULL, to_regclass($2::text) IS NOT NULL`,
		inSchema("errand.jobs", schema), inSchema("errand.migrations", schema))
	if err != nil || !hasRecord {
		return 0, hasJobs, err
	}
	err = sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&version) },
		inSchema(`SELECT coalesce(max(version), 0) FROM errand.migrations`, schema))
	return version, hasJobs, err
}

// lockKey is the key of the advisory lock that an operation takes in a schema.
func lockKey(operation, schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("errand." + operation + "." + schema))
	return int64(h.Sum64())
}
