package main

import (
	"context"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
)

// TestRun plays the story. Its Down changes neither goose's record nor errand's.
func TestRun(t *testing.T) {
	db, dir := postgrestest.Empty(t), t.TempDir()
	if err := run(t.Context(), db, dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	steps := steps(t)
	var got, errands int
	err := db.QueryRowContext(t.Context(), `SELECT (SELECT max(version_id) FROM goose_db_version), (SELECT max(version) FROM errand.migrations)`).
		Scan(&got, &errands)
	if err != nil {
		t.Fatal(err)
	}
	if got != len(steps)+2 || errands != len(steps) {
		t.Errorf("goose has version %d and errand %d, want %d and %d", got, errands, len(steps)+2, len(steps))
	}
}

// TestSameSchema: goose makes the same schema as Migrate, to the last comment in a function. So one
// may follow the other.
func TestSameSchema(t *testing.T) {
	db := postgrestest.Empty(t)
	if err := up(t.Context(), db, t.TempDir(), steps(t), io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Errorf("Migrate after goose: %v", err)
	}
	got, want := catalogue(t, db), catalogue(t, postgrestest.Open(t))
	if got != want || len(want) < 1000 {
		t.Errorf("the schema that goose has made differs from Migrate's:\ngot\n%s\nwant\n%s", got, want)
	}
}

// TestMigrateFirst: a team that has used Migrate changes over to goose, which gets the later steps.
func TestMigrateFirst(t *testing.T) {
	db, dir := postgrestest.Empty(t), t.TempDir()
	steps := steps(t)
	for _, step := range steps[:3] { // what Migrate of an earlier release has done
		if _, err := db.ExecContext(t.Context(), step.SQL); err != nil {
			t.Fatal(err)
		}
	}
	if err := up(t.Context(), db, dir, steps[3:], io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Check(t.Context(), db, postgres.Options{}); err != nil {
		t.Error(err)
	}
}

// TestWriteSteps: files that exist stay as they are, whatever has been written between them.
func TestWriteSteps(t *testing.T) {
	dir := t.TempDir()
	steps := steps(t)
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("00011_users.sql")
	write("README.md")
	if err := writeSteps(dir, steps[:1]); err != nil {
		t.Fatal(err)
	}
	write("00012_errand_0001_jobs.sql") // edited since
	write("20261122120000_orders.sql")
	for range 2 {
		if err := writeSteps(dir, steps[:2]); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"00011_users.sql", "00012_errand_0001_jobs.sql", "20261122120000_orders.sql", "20261122120001_errand_0002_enqueue.sql", "README.md"}
	for i, entry := range entries {
		if i >= len(want) || entry.Name() != want[i] {
			t.Errorf("file %d is %s, want %v", i, entry.Name(), want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, want[1]))
	if err != nil || string(text) != "mine" {
		t.Errorf("got %s, %v; want the file as it was", text, err)
	}
}

// TestRoles: docs/roles.sql is a migration like the others, and again with a later release.
func TestRoles(t *testing.T) {
	db, dir := postgrestest.Empty(t), t.TempDir()
	if err := up(t.Context(), db, dir, steps(t), io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	// Roles belong to the whole server, so this test has names of its own for them.
	prefix := query[string](t, db, `SELECT current_database()`) + "_"
	roles := regexp.MustCompile(`\berrand_(migrator|enqueuer|worker|observer|operator)\b`).ReplaceAllString(string(text), prefix+"$1")
	t.Cleanup(func() { dropRoles(t, db, prefix) })
	for _, text := range []string{roles, roles + "-- of a later release\n", roles} {
		if err := writeRoles(dir, text); err != nil {
			t.Fatal(err)
		}
	}
	results, err := provider(db, dir, func(p *goose.Provider) ([]*goose.MigrationResult, error) { return p.Up(t.Context()) })
	if err != nil || len(results) != 2 {
		t.Fatalf("goose has run %d files, %v; want 2", len(results), err)
	}
	if !query[bool](t, db, `SELECT has_column_privilege($1, 'errand.jobs', 'status', 'UPDATE')`, prefix+"worker") {
		t.Error("the working role may not update jobs")
	}
	if query[bool](t, db, `SELECT has_column_privilege($1, 'errand.jobs', 'payload', 'SELECT')`, prefix+"observer") {
		t.Error("the observing role may read payloads")
	}
}

// dropRoles removes the roles of TestRoles, and what they own.
func dropRoles(t *testing.T, db *sql.DB, prefix string) {
	t.Helper()
	names := strings.NewReplacer("$", prefix).Replace("$migrator, $enqueuer, $worker, $observer, $operator")
	for _, statement := range []string{"DROP OWNED BY " + names + " CASCADE", "DROP ROLE " + names} {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Error(err)
		}
	}
}

// steps returns errand's steps.
func steps(t *testing.T) []postgres.Migration {
	t.Helper()
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// catalogue returns what defines the schema, a line for each column, constraint, index and
// function.
func catalogue(t *testing.T, db *sql.DB) string {
	t.Helper()
	return query[string](t, db, `
		SELECT string_agg(line, E'\n' ORDER BY line) FROM (
			SELECT format('%s %s %s %s', attrelid::regclass, attname, atttypid::regtype, attnotnull) AS line
				FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'errand'::regnamespace
			UNION ALL SELECT format('%s %s', conname, pg_get_constraintdef(oid))
				FROM pg_constraint WHERE connamespace = 'errand'::regnamespace
			UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'errand'
			UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'errand'::regnamespace
			UNION ALL SELECT format('migration %s %s', version, name) FROM errand.migrations
		) AS lines`)
}

// query returns the one value that a query returns.
func query[T any](t *testing.T, db *sql.DB, text string, args ...any) (value T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), text, args...).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
