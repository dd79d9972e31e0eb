package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

// Migration is one step from an empty schema to the current one.
type Migration struct {
	Version int
	Name    string
	SQL     string // to be run as a whole, in one transaction
}

// Migrations lists the steps in their order with the schema of o in place, for
// those who run them with a tool of their own. The first needs the schema to exist. The
// error is a [*queue.InvalidError].
func Migrations(o Options) ([]Migration, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, m := range sqlkit.Migrations(sqlFiles, "sql/migrations") {
		list = append(list, Migration{m.Version, m.Name, inSchema(m.SQL, o.Schema)})
	}
	return list, nil
}

// Migrate brings the schema of o up to date: it creates what is missing. Each step is one
// transaction under an advisory lock, so any number of processes may call it at any time; where
// there is nothing to do it changes nothing. A step never waits longer than two seconds for a lock
// on a table, because all other calls wait behind it; then it lets them go on for a while and
// tries again, until ctx ends. A schema that a newer program has migrated is a
// [*queue.SetupError] with [queue.ErrNewer] in it. Migrate needs the right to create a schema in
// the database the first time, and a database in UTF-8.
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

// migrateOnce takes the first step that has not been taken, and reports whether there are more.
func migrateOnce(ctx context.Context, db *sql.DB, schema string, steps []Migration) (more bool, err error) {
	// Read committed, so that what another process did while this one waited
	// for the lock is seen.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1::bigint)`, lockKey("migrate", schema)); err != nil {
		return false, err
	}
	version, err := currentVersion(ctx, tx, schema)
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
	if err := takeStep(ctx, tx, schema, steps[i]); err != nil {
		return false, fmt.Errorf("%04d_%s: %w", steps[i].Version, steps[i].Name, err)
	}
	return steps[i].Version < last, tx.Commit()
}

func takeStep(ctx context.Context, tx *sql.Tx, schema string, step Migration) error {
	for _, text := range []string{limitLockWait, step.SQL} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, inSchema(`INSERT INTO errand.migrations (version, name) VALUES ($1, $2)`, schema), step.Version, step.Name)
	return err
}

// currentVersion returns the last migration recorded. It creates the schema and
// the record where they are missing: someone with the right to may have made the
// schema beforehand.
func currentVersion(ctx context.Context, tx *sql.Tx, schema string) (version int, err error) {
	var encoding string
	var schemaExists, recordExists bool
	err = tx.QueryRowContext(ctx, `SELECT current_setting('server_encoding'), to_regnamespace($1::text) IS NOT NULL, to_regclass($2::text) IS NOT NULL`,
		quoted(schema), inSchema("errand.migrations", schema)).Scan(&encoding, &schemaExists, &recordExists)
	if err != nil {
		return 0, err
	}
	if encoding != "UTF8" {
		return 0, errors.New("the database's encoding is " + encoding + ": errand needs UTF8")
	}
	if !schemaExists {
		if _, err := tx.ExecContext(ctx, "CREATE SCHEMA "+quoted(schema)); err != nil {
			return 0, err
		}
	}
	if !recordExists {
		_, err = tx.ExecContext(ctx, inSchema(sqlkit.ReadFile(sqlFiles, "sql/migrations_table.sql"), schema))
		return 0, err
	}
	err = tx.QueryRowContext(ctx, inSchema(`SELECT coalesce(max(version), 0) FROM errand.migrations`, schema)).Scan(&version)
	return version, err
}

// lockKey is the key of the advisory lock that a operation takes in a schema.
func lockKey(operation, schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("errand." + operation + "." + schema))
	return int64(h.Sum64())
}
