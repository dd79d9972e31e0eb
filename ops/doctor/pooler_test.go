//go:build unix

package doctor_test

import (
	"database/sql"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/internal/machine"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
)

// TestPooler: doctor finds a PgBouncer in transaction mode, through which no notification arrives,
// also if it gives the connection that was released first. It finds nothing in session mode and
// without one.
func TestPooler(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for mode, want := range map[string][]string{
		"transaction": {"listen", "pooler"}, "transaction\nserver_round_robin = 1": {"listen", "pooler"}, "session": nil, "": nil,
	} {
		t.Run("mode "+mode, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			if mode != "" {
				dsn = machine.StartPgBouncer(t, dsn, mode)
			}
			db, err := sql.Open("pgx", dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			found := opstest.Examine(t, opstest.Backend(t, db, postgres.Options{Listen: pgxlisten.Listen}), doctor.Options{})
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
				t.Errorf("found %v, want %v", got, want)
			}
			// A tool's own listener says nothing about workers, which may have none, or another URL.
			found = opstest.Examine(t, opstest.Backend(t, db, postgres.Options{Listen: pgxlisten.Listen}), doctor.Options{Tool: true})
			if got, ok := found["listen"]; ok {
				t.Errorf("of a tool: listen is %+v", got)
			}
		})
	}
}

// TestPoolerOfStatements: through a PgBouncer that keeps no prepared statements, the check pooler
// finds it also where pgx's statement exists already, and does not say that the database cannot be
// reached; a tool's listen is skipped, and the advice is for lib/pq, too.
func TestPoolerOfStatements(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(machine.StartPgBouncerSize(t, postgrestest.DSN(t), "transaction", 2))
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = "sslmode=disable" // pgx's default mode
	open := func() *sql.DB {
		db, err := sql.Open("pgx", u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	// Both of the pooler's connections have the statement of the check.
	others := open()
	first, second := opstest.Begin(t, others), opstest.Begin(t, others)
	for _, tx := range []*sql.Tx{first, second} {
		var pid int
		if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = first.Rollback(), second.Rollback()
	found := opstest.Examine(t, opstest.Backend(t, open(), postgres.Options{Listen: pgxlisten.Listen}), doctor.Options{Tool: true})
	pooler := found["pooler"]
	if pooler.Level != ops.Warn || strings.Contains(pooler.Value, "cannot be reached") ||
		!strings.Contains(pooler.Advice, "default_query_exec_mode=exec") || !strings.Contains(pooler.Advice, "binary_parameters=yes") {
		t.Errorf("pooler is %+v", pooler)
	}
	if got, ok := found["listen"]; ok {
		t.Errorf("listen is %+v", got)
	}
}

// TestPoolerOverPQ: where doctor sees a pooler in transaction mode over lib/pq, it says which
// statements of the program are in danger.
func TestPoolerOverPQ(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(machine.StartPgBouncer(t, postgrestest.DSN(t), "transaction"))
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = "sslmode=disable"
	db, err := sql.Open("postgres", u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	found := opstest.Examine(t, opstest.Backend(t, db, postgres.Options{}), doctor.Options{})
	if got := found["pooler"].Advice; !strings.Contains(got, "binary_parameters=yes") {
		t.Errorf("the advice is %q", got)
	}
}
