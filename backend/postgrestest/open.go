package postgrestest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
)

// testSettings trade durability for speed, since nothing here outlives its test, and leave room for
// many tests at once, some of which prepare transactions.
var testSettings = map[string]string{
	"max_connections":           "200",
	"max_prepared_transactions": "20",
}

// dropTimeout is how long the end of a test may wait for its database to be dropped.
const dropTimeout = time.Minute

// Open returns a fresh, migrated database for this test alone, opened with pgx/v5/stdlib. When the
// test ends, the handle is closed, and the database is dropped even if it is still in use. If there
// is no server, Open ends the test.
//
// The first call in a process starts the server and blocks for a second or two, or for as long as
// Docker takes to pull an image. Later calls take tens of milliseconds. Tests may call it in
// parallel.
func Open(t testing.TB) *sql.DB {
	t.Helper()
	return openDSN(t, DSN(t))
}

// DSN is [Open] for tests that open the database themselves, for example with lib/pq. It returns
// the database's URL, postgres://user:password@host:port/database?sslmode=disable.
func DSN(t testing.TB) string {
	t.Helper()
	return createDSN(t, func(s *Server) string { return s.name })
}

// Empty is [Open] without errand's schema: a database with nothing in it, for tests of your own
// migrations.
func Empty(t testing.TB) *sql.DB {
	t.Helper()
	return openDSN(t, EmptyDSN(t))
}

// EmptyDSN is [DSN] without errand's schema.
func EmptyDSN(t testing.TB) string {
	t.Helper()
	return createDSN(t, func(*Server) string { return "template0" })
}

// openDSN opens a database until the test ends.
func openDSN(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal("postgrestest: ", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// createDSN creates a database for this test from a template, and returns its URL.
func createDSN(t testing.TB, template func(*Server) string) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	name, err := s.create(t.Context(), template(s))
	if err != nil {
		t.Fatal("postgrestest: ", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
		defer cancel()
		if err := s.drop(ctx, name); err != nil {
			t.Error("postgrestest: ", err)
		}
	})
	return s.dsn(name)
}

// shared is this process' server, with the program's database as the template. It ends with the
// process; nobody closes it.
var shared = sync.OnceValues(func() (*Server, error) {
	ctx := context.Background()
	s, err := Start(ctx, Options{Settings: testSettings})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "postgrestest:", s.Description)
	if err := s.makeTemplate(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("postgrestest: template database: %w", err)
	}
	return s, nil
})

// makeTemplate migrates the program's database and then closes it to all connections but those of
// superusers, because a database that is in use cannot be cloned. It does not forbid connections:
// pg_upgrade refuses a server with such a database.
func (s *Server) makeTemplate(ctx context.Context) error {
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := postgres.Migrate(ctx, db, postgres.Options{}); err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	_, err = s.admin.ExecContext(ctx, "ALTER DATABASE "+s.name+" CONNECTION LIMIT 0")
	return err
}
