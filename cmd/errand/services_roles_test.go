package main

import (
	"bytes"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
)

// TestServiceRoles: the roles that migrate print writes for two schemas share nothing. Doctor finds
// the rights of each as they should be, and nothing wrong with the workers of the other.
func TestServiceRoles(t *testing.T) {
	t.Parallel()
	database := clitest.Backends[1].URL(t, t.TempDir())
	root, err := dburl.Open(database, dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var prefix string
	if err := root.DB.QueryRowContext(t.Context(), `SELECT current_database()`).Scan(&prefix); err != nil {
		t.Fatal(err)
	}
	prefix = "S_" + strings.TrimPrefix(prefix, "errand_test_") // roles belong to the whole server
	t.Cleanup(func() { dropRoles(t, database, prefix) })
	schemas := []string{prefix + "_Orders", prefix + "_bills"}
	workers := map[string]*dburl.Database{}
	for _, schema := range schemas {
		mustRun(t, database, "migrate", "up", "--schema", schema)
		execAll(t, root.DB, mustRun(t, database, "migrate", "print", "postgres", "--roles", "--schema", schema),
			`CREATE ROLE "`+schema+`_app" LOGIN PASSWORD 'p' IN ROLE "`+schema+`_worker"`)
		workers[schema] = openAs(t, database, schema+"_app", schema)
	}
	for i, schema := range schemas {
		other := schemas[1-i]
		request := queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Minute, Worker: "w"}
		if _, err := workers[schema].Queue.Claim(t.Context(), request); err != nil {
			t.Errorf("the worker of %s: %v", schema, err)
		}
		if _, err := openAs(t, database, schema+"_app", other).Queue.Claim(t.Context(), request); err == nil {
			t.Errorf("the worker of %s has claimed in %s", schema, other)
		}
		if line := checkOf(t, database, schema, "rights"); !strings.Contains(line, `"level":"ok"`) || !strings.Contains(line, schema+"_worker") || strings.Contains(line, other) {
			t.Errorf("doctor of %s: %s", schema, line)
		}
	}
	lost := prefix + "_lost"
	execAll(t, root.DB, `CREATE ROLE "`+lost+`" LOGIN PASSWORD 'p'`)
	_, _ = openAs(t, database, lost, schemas[0]).Queue.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Minute, Worker: "w"})
	want := `GRANT \"` + schemas[0] + `_worker\" TO \"` + lost + `\"`
	if line := checkOf(t, database, schemas[0], "rights"); !strings.Contains(line, `"level":"fail"`) || !strings.Contains(line, want) {
		t.Errorf("got %s, want %s", line, want)
	}
}

// openAs opens a schema as a user, as a program that is called errand.
func openAs(t *testing.T, database, user, schema string) *dburl.Database {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "p")
	d, err := dburl.Open(u.String(), dburl.Options{Schema: schema, Application: "errand-" + schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// mustRun runs a command, and returns what it prints.
func mustRun(t *testing.T, database string, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	a := &cli.App{Out: &out, Err: &said, Getenv: clitest.Env(database)}
	if code := run(t.Context(), a, args); code != cli.ExitDone {
		t.Fatalf("%q: exit code %d: %s", args, code, &said)
	}
	return out.String()
}

// checkOf returns a check of doctor as JSON.
func checkOf(t *testing.T, database, schema, check string) string {
	t.Helper()
	var out, said bytes.Buffer
	a := &cli.App{Out: &out, Err: &said, Getenv: clitest.Env(database)}
	run(t.Context(), a, []string{"doctor", "--schema", schema, "-o", "jsonl"})
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, `"id":"`+check+`"`) {
			return line
		}
	}
	t.Fatalf("no check %s in %s%s", check, &out, &said)
	return ""
}

func execAll(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%.100s: %v", s, err)
		}
	}
}

// dropRoles removes the roles whose names begin with prefix, and what they own.
func dropRoles(t *testing.T, database, prefix string) {
	t.Helper()
	d, err := dburl.Open(database, dburl.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	defer d.Close()
	if _, err := d.DB.Exec(`DO $$
		DECLARE role regrole;
		BEGIN
			FOR role IN SELECT oid::regrole FROM pg_roles WHERE starts_with(rolname, '` + prefix + `') LOOP
				EXECUTE format('REASSIGN OWNED BY %s TO CURRENT_USER', role);
				EXECUTE format('DROP OWNED BY %s', role);
				EXECUTE format('DROP ROLE %s', role);
			END LOOP;
		END $$`); err != nil {
		t.Error(err)
	}
}
