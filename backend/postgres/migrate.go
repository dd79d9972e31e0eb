package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"strconv"
	"strings"
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
	const dir = "sql/migrations"
	files, err := fs.ReadDir(sqlFiles, dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, f := range files {
		number, name, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("postgres: migration %s: %w", f.Name(), err)
		}
		list = append(list, Migration{version, name, inSchema(readSQL(path.Join(dir, f.Name())), o.Schema)})
	}
	return list, nil
}

// Migrate brings the schema of o up to date: it creates what is missing, in one
// transaction under an advisory lock, so any number of processes may call it at
// any time; where there is nothing to do it changes nothing. A schema that a newer program has
// migrated is a [*queue.SetupError] with [queue.ErrNewer] in it. It needs the right
// to create a schema in the database the first time, and a database in UTF-8.
func Migrate(ctx context.Context, db *sql.DB, o Options) error {
	steps, err := Migrations(o)
	if err != nil {
		return err
	}
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	if err := retry(ctx, func() error { return migrate(ctx, db, o.Schema, steps) }); err != nil {
		return fmt.Errorf("postgres: migrate schema %q: %w", o.Schema, err)
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB, schema string, steps []Migration) error {
	// Read committed, so that what another process did while this one waited
	// for the lock is seen.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1::bigint)`, lockKey("migrate", schema)); err != nil {
		return err
	}
	version, err := currentVersion(ctx, tx, schema)
	if err != nil {
		return err
	}
	if err := checkNotNewer(version, steps[len(steps)-1].Version); err != nil {
		return err
	}
	for _, step := range steps {
		if step.Version <= version {
			continue
		}
		if _, err := tx.ExecContext(ctx, step.SQL); err != nil {
			return fmt.Errorf("%04d_%s: %w", step.Version, step.Name, err)
		}
		if _, err := tx.ExecContext(ctx, inSchema(`INSERT INTO errand.migrations (version, name) VALUES ($1, $2)`, schema), step.Version, step.Name); err != nil {
			return err
		}
	}
	return tx.Commit()
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
		_, err = tx.ExecContext(ctx, inSchema(readSQL("sql/migrations_table.sql"), schema))
		return 0, err
	}
	err = tx.QueryRowContext(ctx, inSchema(`SELECT coalesce(max(version), 0) FROM errand.migrations`, schema)).Scan(&version)
	return version, err
}

// lockKey is the key of the advisory lock that a verb takes in a schema.
func lockKey(verb, schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("errand." + verb + "." + schema))
	return int64(h.Sum64())
}
