package opstest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// SetSchedule sets a schedule that ticks each hour, and lets its first tick come.
func SetSchedule(t *testing.T, db *sql.DB, q *postgres.Backend, job queue.Job) {
	t.Helper()
	job.Kind = "report"
	s := queue.Schedule{Name: "hourly", Spec: "@hourly", Job: &job}
	if err := q.SetSchedules(t.Context(), nil, s); err != nil {
		t.Fatal(err)
	}
	Tick(t, db, 1)
}

// Tick lets the next tick come, and fires it.
func Tick(t *testing.T, db *sql.DB, fired int) {
	t.Helper()
	Exec(t, db, `UPDATE errand.schedules SET next_at = now()`)
	q := Backend(t, db, postgres.Options{}) // one that has not asked yet when the next tick comes
	if n, _, err := q.FireSchedules(t.Context()); err != nil || n != fired {
		t.Fatalf("fired %d, error %v, want %d", n, err, fired)
	}
}

// SetDefault changes a setting of the database, and makes the sessions of db begin with it.
func SetDefault(t *testing.T, db *sql.DB, name, value string) {
	t.Helper()
	Exec(t, db, fmt.Sprintf("ALTER DATABASE %s SET %s = %s", Database(t, db), name, value))
	db.SetMaxIdleConns(0) // closes them
	db.SetMaxIdleConns(2)
}

// Database returns the name of the database, quoted for SQL.
func Database(t *testing.T, db *sql.DB) (name string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT quote_ident(current_database())`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Prepare prepares a transaction that has run a statement, until the end of the test.
func Prepare(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	gid := "ops_" + Database(t, db)
	tx := Begin(t, db)
	Exec(t, tx, statement)
	gid = strings.ReplaceAll(gid, "errand_", "")
	Exec(t, tx, `PREPARE TRANSACTION '`+gid+`'`)
	_ = tx.Rollback() // nothing is left of it in this session
	t.Cleanup(func() {
		if _, err := db.Exec(`ROLLBACK PREPARED '` + gid + `'`); err != nil {
			t.Error(err)
		}
	})
}

// Change returns a DSN that is a URL, changed.
func Change(t *testing.T, dsn string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// Ruleless is a backend whose rules cannot be read.
type Ruleless struct{ *memory.Queue }

func (Ruleless) Rules(context.Context) ([]queue.Rule, error) { return nil, errors.New("no rules") }

// Roles runs docs/roles.sql with role names that are the test's own, and returns what they begin
// with.
func Roles(t *testing.T, db *sql.DB) (prefix string) {
	t.Helper()
	prefix = strings.ReplaceAll(Database(t, db), "errand_test_", "ops_") + "_"
	text, err := os.ReadFile(findDocs(t) + "/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	Exec(t, db, strings.ReplaceAll(string(text), "errand_", prefix))
	t.Cleanup(func() {
		if _, err := db.Exec(`DO $$
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
	})
	return prefix
}

// findDocs returns the folder docs of the repository. A test runs in the folder of its package.
func findDocs(t *testing.T) string {
	t.Helper()
	for path := "docs"; len(path) < 100; path = "../" + path {
		if _, err := os.Stat(path + "/roles.sql"); err == nil {
			return path
		}
	}
	t.Fatal("no folder docs above this one")
	return ""
}

// OpenPQ opens a database with lib/pq.
func OpenPQ(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
