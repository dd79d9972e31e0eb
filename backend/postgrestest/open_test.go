package postgrestest

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
)

func TestOpenIsMigrated(t *testing.T) {
	db := Open(t)
	var jobs int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM errand.jobs").Scan(&jobs); err != nil {
		t.Fatal(err)
	}
	if jobs != 0 {
		t.Errorf("got %d jobs, want none", jobs)
	}
}

// TestEmpty: an empty database has no schema but public, nothing in it, and the encoding that
// errand needs. It can be migrated.
func TestEmpty(t *testing.T) {
	db := Empty(t)
	var found int
	err := db.QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public'))
			+ (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)`).Scan(&found)
	if err != nil {
		t.Fatal(err)
	}
	if found != 0 {
		t.Errorf("got %d schemas and tables, want none", found)
	}
	if err := postgres.Check(t.Context(), db, postgres.Options{}); err == nil {
		t.Error("Check finds errand's schema")
	}
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Error(err)
	}
	if first, second := EmptyDSN(t), EmptyDSN(t); first == second {
		t.Errorf("EmptyDSN returned %s twice", first)
	}
}

// TestTemplateAllowsConnections: no database of this process forbids connections. Where
// DATABASE_URL names a server the template outlives the process, and pg_upgrade refuses a server
// that has such a database.
func TestTemplateAllowsConnections(t *testing.T) {
	Open(t)
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	var forbidding, limited int
	err = s.admin.QueryRowContext(t.Context(), `
		SELECT count(*) FILTER (WHERE NOT datallowconn), count(*) FILTER (WHERE datconnlimit = 0)
		FROM pg_database WHERE starts_with(datname, $1)`, s.prefix).Scan(&forbidding, &limited)
	if err != nil || forbidding > 0 || limited != 1 {
		t.Errorf("%d databases forbid connections, want none; %d limit them to none, want the template; %v", forbidding, limited, err)
	}
}

func TestOpenIsIsolated(t *testing.T) {
	one, other := Open(t), Open(t)
	run(t, one, "CREATE TABLE mine ()")
	var found sql.NullString
	if err := other.QueryRowContext(t.Context(), "SELECT to_regclass('mine')").Scan(&found); err != nil {
		t.Fatal(err)
	}
	if found.Valid {
		t.Error("a table of one database is in the other")
	}
}

// TestOpenLeavesNames: the test's own tables may have the names of errand's, and are not in
// errand's schema.
func TestOpenLeavesNames(t *testing.T) {
	db := Open(t)
	for _, table := range []string{"jobs", "migrations", "sleepers"} {
		run(t, db, "CREATE TABLE "+table+" ()")
	}
	var schema string
	if err := db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	if schema != "public" {
		t.Errorf("tables are created in %s, want public", schema)
	}
}

func TestOpenInParallel(t *testing.T) {
	const n = 12
	var mu sync.Mutex
	names := map[string]bool{}
	t.Run("group", func(t *testing.T) {
		for range n {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				name := currentDatabase(t, Open(t))
				mu.Lock()
				defer mu.Unlock()
				names[name] = true
			})
		}
	})
	if len(names) != n {
		t.Errorf("got %d databases, want %d", len(names), n)
	}
}

func TestOpenDropsAtTheEnd(t *testing.T) {
	var name string
	t.Run("test", func(t *testing.T) {
		db := Open(t)
		name = currentDatabase(t, db)
		// A connection that is still in use is no reason to stay.
		conn, err := sql.Open("postgres", DSN(t))
		if err != nil {
			t.Fatal(err)
		}
		run(t, conn, "SELECT 1")
		if !exists(t, name) {
			t.Errorf("database %s does not exist during its test", name)
		}
	})
	if exists(t, name) {
		t.Errorf("database %s exists after its test", name)
	}
}

func TestDSNWorksWithBothDrivers(t *testing.T) {
	dsn := DSN(t)
	for _, driver := range []string{"pgx", "postgres"} {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if got, want := currentDatabase(t, db), "errand_test_"; !strings.HasPrefix(got, want) {
			t.Errorf("%s: got database %s, want %s…", driver, got, want)
		}
	}
}

func TestOpenIsCheap(t *testing.T) {
	extent.Long(t)
	Open(t) // starts the server, if this is the first test
	const n = 10
	start := time.Now()
	t.Run("clones", func(t *testing.T) {
		for range n {
			DSN(t)
		}
		t.Logf("created in %v each", time.Since(start)/n)
	})
	each := time.Since(start) / n
	t.Logf("created and dropped in %v each", each)
	if each > time.Second {
		t.Errorf("created and dropped in %v each, want tens of milliseconds", each)
	}
}

// run runs a statement.
func run(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// currentDatabase returns the name of the database that db is connected to.
func currentDatabase(t *testing.T, db *sql.DB) (name string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

// exists reports whether the server of this process's tests has the database.
func exists(t *testing.T, name string) (found bool) {
	t.Helper()
	s := testServer(t)
	err := s.admin.QueryRowContext(context.Background(), "SELECT count(*) > 0 FROM pg_database WHERE datname = $1", name).Scan(&found)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// testServer is the server that Open uses.
func testServer(t *testing.T) *Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
