package postgres_test

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// TestMigrateTogether lets 16 processes' worth of migrators begin at once, in a
// schema that is not there yet and is spelled with care.
func TestMigrateTogether(t *testing.T) {
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

// TestMigrationsPrinted runs the steps as someone does who has a tool of their own.
func TestMigrationsPrinted(t *testing.T) {
	db := postgrestest.Open(t)
	o := postgres.Options{Schema: "printed"}
	steps, err := postgres.Migrations(o)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "CREATE SCHEMA printed")
	for _, s := range steps {
		exec(t, db, s.SQL)
	}
	enqueue(t, backend(t, db, o), &queue.Job{Kind: "test"})
}

// TestMigrateSchemaMadeBeforehand: whoever runs Migrate need not be allowed to
// create schemas, if someone who is has made it.
func TestMigrateSchemaMadeBeforehand(t *testing.T) {
	db := postgrestest.Open(t)
	exec(t, db, `DROP SCHEMA errand CASCADE`)
	exec(t, db, `DROP ROLE IF EXISTS errand_plain`)
	exec(t, db, `CREATE ROLE errand_plain`)
	exec(t, db, `CREATE SCHEMA errand AUTHORIZATION errand_plain`)
	db.SetMaxOpenConns(1)
	exec(t, db, `SET ROLE errand_plain`)
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Error(err)
	}
	exec(t, db, `RESET ROLE`)
	exec(t, db, `DROP OWNED BY errand_plain`)
	exec(t, db, `DROP ROLE errand_plain`)
}

func TestMigrateNeedsUTF8(t *testing.T) {
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
