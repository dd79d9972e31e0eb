//go:build unix

package ops_test

import (
	"database/sql"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/internal/pgbouncer"
	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// TestPooler: Doctor finds a PgBouncer in transaction mode, through which no notification arrives,
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
			found := examine(t, backend(t, db, postgres.Options{Listen: pgxlisten.Listen}), ops.Options{})
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
				t.Errorf("found %v, want %v", got, want)
			}
			// A tool's own listener says nothing about workers, which may have none, or another URL.
			found = examine(t, backend(t, db, postgres.Options{Listen: pgxlisten.Listen}), ops.Options{Tool: true})
			if got, ok := found["listen"]; ok {
				t.Errorf("of a tool: listen is %+v", got)
			}
		})
	}
}

// TestPoolerOverPQ: where Doctor sees a pooler in transaction mode over lib/pq, it says which
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
	found := examine(t, backend(t, db, postgres.Options{}), ops.Options{})
	if got := found["pooler"].Advice; !strings.Contains(got, "binary_parameters=yes") {
		t.Errorf("the advice is %q", got)
	}
}

// TestLostStatements: if prepared statements are not those of the session, as behind a PgBouncer
// that does not keep them, the error says what to do.
func TestLostStatements(t *testing.T) {
	t.Parallel()
	db, q := fresh(t)
	db.SetMaxOpenConns(1)
	id := enqueue(t, q, queue.Job{})
	explain(t, q, ops.Question{ID: id}) // prepares
	exec(t, db, `DEALLOCATE ALL`)
	_, err := ops.Explain(t.Context(), q, ops.Question{ID: id})
	if e, ok := errors.AsType[*reach.Error](err); !ok || !strings.Contains(e.Problem, "keeps no prepared statements") ||
		!strings.Contains(e.Advice, "default_query_exec_mode=exec") {
		t.Errorf("Explain: error %v", err)
	}
}
