package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestDrop: after any number of steps, DropSQL leaves nothing. Migrate can begin again.
func TestDrop(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.EmptyDSN(t)
	for _, way := range firstWays(2) {
		db, _ := way.open(t, dsn)
		o := postgres.Options{Schema: "Drop_1"}
		steps, err := postgres.Migrations(o)
		if err != nil {
			t.Fatal(err)
		}
		drop, err := postgres.DropSQL(o)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(steps) + 1 {
			for _, s := range steps[:n] {
				exec(t, db, s.SQL)
			}
			exec(t, db, drop)
			if value[bool](t, db, `SELECT to_regnamespace('"Drop_1"') IS NOT NULL`) {
				t.Errorf("after %d steps something is left: %s", n, value[string](t, db,
					`SELECT string_agg(pg_describe_object(classid, objid, 0), ', ') FROM pg_depend WHERE refobjid = to_regnamespace('"Drop_1"')`))
			}
		}
		if err := postgres.Migrate(t.Context(), db, o); err != nil {
			t.Fatal(err)
		}
		enqueue(t, backend(t, db, o), &queue.Job{Kind: "test"})
		exec(t, db, drop)
	}
}

// TestDropBesideOthers: what errand has not made stays, and what depends on its tables keeps them.
func TestDropBesideOthers(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	drop, err := postgres.DropSQL(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, `CREATE VIEW public.late AS SELECT id FROM errand.jobs WHERE status = 'pending'`)
	unchanged := sameCatalogue(t, db)
	_, err = db.ExecContext(t.Context(), drop)
	if want := "other objects depend on errand's: view late depends on table errand.jobs"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q in it", err, want)
	}
	unchanged()
	exec(t, db, `DROP VIEW public.late`)

	exec(t, db, `CREATE TABLE errand.mine (id bigint); CREATE FUNCTION errand.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	exec(t, db, drop)
	got := value[string](t, db, `SELECT string_agg(pg_describe_object(classid, objid, 0), ', ' ORDER BY classid, objid) FROM pg_depend
		WHERE refobjid = to_regnamespace('errand')`)
	if want := "function errand.mine(), table errand.mine"; got != want && got != "table errand.mine, function errand.mine()" {
		t.Errorf("left is %s, want %s", got, want)
	}
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Error(err)
	}
}

// TestDropOverloads: functions of others that have a name of errand's stay, after any number of
// steps.
func TestDropOverloads(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	drop, err := postgres.DropSQL(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.Fields(value[string](t, db, `SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'errand'::regnamespace`))
	var create, theirs strings.Builder
	for _, name := range ours {
		fmt.Fprintf(&create, "CREATE FUNCTION errand.%s(point) RETURNS int LANGUAGE sql AS 'SELECT 1';\n", name)
		fmt.Fprintf(&theirs, "DROP FUNCTION errand.%s(point);\n", name)
	}
	for n := len(steps); n >= 1; n-- {
		exec(t, db, create.String())
		exec(t, db, drop)
		exec(t, db, theirs.String())
		if left := value[string](t, db, `SELECT coalesce(string_agg(pg_describe_object(classid, objid, 0), ', '), '') FROM pg_depend
			WHERE refobjid = to_regnamespace('errand')`); left != "" {
			t.Errorf("after %d steps something else is left: %s", n, left)
		}
		exec(t, db, drop)
		for _, s := range steps[:n-1] {
			exec(t, db, s.SQL)
		}
	}
}

// TestDropRoles: the migrating role of roles.sql may run DropSQL, and no other role changes
// anything with it.
func TestDropRoles(t *testing.T) {
	r := ready(t)
	drop, err := postgres.DropSQL(r.o)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"enqueuer", "worker", "observer", "operator"} {
		_, err := r.user(t, role).ExecContext(t.Context(), drop)
		denied(t, role, err)
	}
	if err := postgres.Check(t.Context(), r.admin, r.o); err != nil {
		t.Errorf("after that: %v", err)
	}
	exec(t, r.user(t, "migrator"), drop)
	if value[bool](t, r.admin, `SELECT to_regnamespace($1) IS NOT NULL`, `"`+r.o.Schema+`"`) {
		t.Error("the schema is left")
	}
}
