package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestMigrateTogether lets 16 processes' worth of migrators begin at once, in a
// schema that is not there yet and is spelled with care.
func TestMigrateTogether(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	o := postgres.Options{Schema: "Select_1"}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if err := postgres.Migrate(t.Context(), db, o); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	steps, err := postgres.Migrations(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := value[int](t, db, `SELECT count(*) FROM "Select_1".migrations`); got != len(steps) {
		t.Errorf("%d migrations recorded, want %d, each once", got, len(steps))
	}
	q := backend(t, db, o)
	enqueue(t, q, &queue.Job{Kind: "test"})
	if got := claim(t, q, 1); len(got) != 1 {
		t.Errorf("claimed %d jobs from the schema, want 1", len(got))
	}
	if got := value[int](t, db, `SELECT count(*) FROM errand.jobs`); got != 0 {
		t.Errorf("%d jobs in the other schema, want 0", got)
	}
}

// TestMigrationsByTool: a tool may run all steps or the first of them. Then Check knows the
// version, and Migrate goes on from there. A tool sends a step as a whole, with either driver.
func TestMigrationsByTool(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.EmptyDSN(t)
	db, _ := ways[0].open(t, dsn)
	tools := []*sql.DB{db, nil}
	tools[1], _ = ways[1].open(t, dsn)
	for last := range 100 {
		o := postgres.Options{Schema: fmt.Sprint("After_", last)}
		steps, err := postgres.Migrations(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps[:last] {
			exec(t, tools[last%2], s.SQL)
		}
		err = postgres.Check(t.Context(), db, o)
		switch {
		case last == 0:
			wantSetupError(t, "Check after no step", err, "run postgres.Migrate")
		case last < len(steps):
			wantSetupError(t, "Check", err, fmt.Sprintf("have version %d", last), "run postgres.Migrate")
		case err != nil:
			t.Errorf("Check after all steps: %v", err)
		}
		if err := postgres.Migrate(t.Context(), db, o); err != nil {
			t.Fatalf("Migrate after %d steps of a tool: %v", last, err)
		}
		if err := postgres.Check(t.Context(), db, o); err != nil {
			t.Errorf("Check after Migrate: %v", err)
		}
		if got := value[int](t, db, `SELECT count(*) FROM "`+o.Schema+`".migrations`); got != len(steps) {
			t.Errorf("%d migrations recorded, want %d, each once", got, len(steps))
		}
		enqueue(t, backend(t, db, o), &queue.Job{Kind: "test"})
		if last == len(steps) {
			break
		}
	}
}

// TestMigrationsAgain: a step that has run before fails, and leaves everything as it is.
func TestMigrationsAgain(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	unchanged := sameCatalogue(t, db)
	for _, s := range steps {
		if _, err := db.ExecContext(t.Context(), s.SQL); err == nil {
			t.Errorf("step %d ran twice", s.Version)
		}
	}
	unchanged()
}

// TestMigrationsLeftOut: a step fails if the one before it has not run.
func TestMigrationsLeftOut(t *testing.T) {
	t.Parallel()
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := postgrestest.Empty(t)
	for i, s := range steps {
		for _, later := range steps[i+1:] {
			if _, err := db.ExecContext(t.Context(), later.SQL); err == nil {
				t.Fatalf("step %d ran without step %d", later.Version, s.Version)
			}
		}
		exec(t, db, s.SQL)
	}
}

// TestMigrateBesideTool: a tool's step waits for Migrate, or Migrate for the tool's, and none runs
// twice.
func TestMigrateBesideTool(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	o := postgres.Options{Schema: "beside"}
	steps, err := postgres.Migrations(o)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, steps[0].SQL)
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), db, o) }()
	eventually(t, "Migrate waits for the tool", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if got := value[int](t, db, `SELECT count(*) FROM beside.migrations`); got != len(steps) {
		t.Errorf("%d migrations recorded, want %d, each once", got, len(steps))
	}
}

// TestMigrateUnrecorded: tables without a record of their version are refused, with what to do.
func TestMigrateUnrecorded(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	exec(t, db, `DROP TABLE errand.migrations`)
	wantSetupError(t, "Check", postgres.Check(t.Context(), db, postgres.Options{}), "create errand.migrations")
	wantSetupError(t, "Migrate", postgres.Migrate(t.Context(), db, postgres.Options{}), "create errand.migrations")
}

// TestMigrateSchemaMadeBeforehand: whoever runs Migrate need not be allowed to
// create schemas, if someone who is has made it.
func TestMigrateSchemaMadeBeforehand(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	role := "plain_" + value[string](t, db, `SELECT current_database()`) // roles are the whole server's
	exec(t, db, `DROP SCHEMA errand CASCADE`)
	exec(t, db, `CREATE ROLE `+role)
	exec(t, db, `CREATE SCHEMA errand AUTHORIZATION `+role)
	db.SetMaxOpenConns(1)
	exec(t, db, `SET ROLE `+role)
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Error(err)
	}
	exec(t, db, `RESET ROLE`)
	exec(t, db, `DROP OWNED BY `+role)
	exec(t, db, `DROP ROLE `+role)
}

func TestMigrateNeedsUTF8(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db, _ := ways[0].open(t, dsn)
	name := value[string](t, db, `SELECT current_database()`)
	exec(t, db, `CREATE DATABASE `+name+`_ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`)
	defer exec(t, db, `DROP DATABASE `+name+`_ascii`)
	ascii, _ := ways[0].open(t, strings.Replace(dsn, name, name+"_ascii", 1))
	defer ascii.Close()
	err := postgres.Migrate(t.Context(), ascii, postgres.Options{})
	if err == nil || !strings.Contains(err.Error(), "SQL_ASCII") {
		t.Errorf("Migrate in a database in SQL_ASCII: error %v, want one that names the encoding", err)
	}
}

func TestOptionsChecked(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	for field, o := range map[string]postgres.Options{
		"Schema":     {Schema: `errand"; DROP TABLE jobs; --`},
		"Schema ":    {Schema: strings.Repeat("s", 49)},
		"Schema  ":   {Schema: "1st"},
		"MaxPayload": {MaxPayload: -1},
	} {
		want := strings.TrimSpace(field)
		var bad *queue.InvalidError
		if _, err := postgres.New(db, o); !errors.As(err, &bad) || bad.Field != want {
			t.Errorf("New(%+v): %v, want an InvalidError for %s", o, err, want)
		}
		if err := postgres.Migrate(t.Context(), db, o); !errors.As(err, &bad) || bad.Field != want {
			t.Errorf("Migrate(%+v): %v, want an InvalidError for %s", o, err, want)
		}
	}
	var bad *queue.InvalidError
	if _, err := postgres.New(nil, postgres.Options{}); !errors.As(err, &bad) {
		t.Errorf("New(nil): %v, want an InvalidError", err)
	}
	q := backend(t, db, postgres.Options{})
	if err := q.Enqueue(t.Context(), (*sql.Tx)(nil), &queue.Job{Kind: "test"}); !errors.As(err, &bad) || bad.Field != "DB" {
		t.Errorf("Enqueue with a nil *sql.Tx: %v, want an InvalidError for DB", err)
	}
}
