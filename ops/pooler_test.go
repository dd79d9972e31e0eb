//go:build unix

package ops_test

import (
	"database/sql"
	"maps"
	"slices"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/pgbouncer"
	"github.com/errandhq/errand/ops"
)

// TestPooler: Doctor finds a PgBouncer in transaction mode, through which no notification arrives,
// and nothing in session mode and without one.
func TestPooler(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{"transaction": {"listen", "pooler"}, "session": nil, "": nil} {
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
		})
	}
}
