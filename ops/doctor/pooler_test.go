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
	"github.com/errandhq/errand/internal/pgbouncer"
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
				dsn = pgbouncer.Start(t, dsn, mode)
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

// TestPoolerOverPQ: where doctor sees a pooler in transaction mode over lib/pq, it says which
// statements of the program are in danger.
func TestPoolerOverPQ(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgbouncer.Start(t, postgrestest.DSN(t), "transaction"))
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
