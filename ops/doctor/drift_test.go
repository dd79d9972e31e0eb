package doctor_test

import (
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
)

const refuse = `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'`

// TestDriftForeign: drift finds what does harm to errand's tables, and its advice is the right one.
func TestDriftForeign(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		level ops.Level
		says  string // is in the check's value or its advice
		make  []string
	}{
		"an identity column": {ops.Warn, "→ errand does not need it",
			[]string{`ALTER TABLE errand.jobs ADD mine int NOT NULL GENERATED ALWAYS AS IDENTITY`}},
		"a column whose type has a default": {ops.Warn, "→ errand does not need it",
			[]string{`CREATE DOMAIN public.d AS text DEFAULT 'x'`, `ALTER TABLE errand.jobs ADD mine public.d NOT NULL`}},
		"a column whose type is NOT NULL": {ops.Warn, `→ it has no default`,
			[]string{`CREATE DOMAIN public.d AS text NOT NULL`, `ALTER TABLE errand.jobs ADD mine public.d`}},
		"a CHECK of a domain": {ops.Warn, `ALTER DOMAIN "errand".job_name DROP CONSTRAINT "my check"`,
			[]string{`ALTER DOMAIN errand.job_name ADD CONSTRAINT "my check" CHECK (VALUE <> 'x')`}},
		"a trigger that fires on replicas": {ops.Warn, `ALTER TABLE "errand".jobs ENABLE TRIGGER jobs_values_check_insert`,
			[]string{`ALTER TABLE errand.jobs ENABLE REPLICA TRIGGER jobs_values_check_insert`}},
		"a trigger of a different table": {ops.Warn, `DROP TRIGGER "mine" ON "errand".results`,
			[]string{refuse, `CREATE TRIGGER mine BEFORE INSERT ON errand.results FOR EACH ROW EXECUTE FUNCTION public.refuse()`}},
		"row security of a different table": {ops.Warn, `ALTER TABLE "errand".results DISABLE ROW LEVEL SECURITY`,
			[]string{`ALTER TABLE errand.results ENABLE ROW LEVEL SECURITY`}},
		"a child": {ops.Warn, `ALTER TABLE public."My kid" NO INHERIT "errand".jobs`,
			[]string{`CREATE TABLE public."My kid" () INHERITS (errand.jobs)`}},
		"an unlogged table": {ops.Fail, `ALTER TABLE "errand".jobs SET LOGGED`,
			[]string{`ALTER TABLE errand.jobs SET UNLOGGED`}},
		"a foreign key in errand's schema": {ops.Warn, "it may refuse that jobs are deleted",
			[]string{`CREATE TABLE errand.mine (job bigint REFERENCES errand.jobs)`}},
		"a changed function": {ops.Warn, "the function payload_problem is different → make it again",
			[]string{`CREATE OR REPLACE FUNCTION errand.payload_problem(payload jsonb) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, q := opstest.Fresh(t)
			for _, statement := range f.make {
				opstest.Exec(t, db, statement)
			}
			c := opstest.Examine(t, q, doctor.Options{})["drift"]
			if c.Level != f.level || !strings.Contains(c.Value+" → "+c.Advice, f.says) {
				t.Errorf("%s: %s → %s, want %s with %q", c.Level, c.Value, c.Advice, f.level, f.says)
			}
		})
	}
}

// TestDriftHarmless: drift does not advise to change a table or a view that somebody has added to
// errand's schema, nor what is not in use.
func TestDriftHarmless(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"a table": {
			`CREATE TABLE errand.mine (id bigint NOT NULL UNIQUE, n int, CHECK (id > 0))`, `CREATE INDEX ON errand.mine (n)`,
			`CREATE RULE r AS ON DELETE TO errand.mine DO INSTEAD NOTHING`, `ALTER TABLE errand.mine ENABLE ROW LEVEL SECURITY`,
			`CREATE TABLE errand."Mi.ne" (id bigint REFERENCES errand.mine (id))`, `CREATE TABLE errand.kid () INHERITS (errand.mine)`,
			`CREATE UNLOGGED TABLE errand.lost (n int)`, refuse,
			`CREATE TRIGGER t BEFORE INSERT ON errand.mine FOR EACH ROW EXECUTE FUNCTION public.refuse()`,
			`CREATE TABLE errand.parts (n int) PARTITION BY RANGE (n)`, `CREATE TABLE errand.part PARTITION OF errand.parts DEFAULT`,
		},
		"a view": {`CREATE MATERIALIZED VIEW errand.seen AS SELECT id FROM errand.jobs`, `CREATE UNIQUE INDEX ON errand.seen (id)`},
		"a disabled rule": {
			`CREATE RULE mine AS ON DELETE TO errand.jobs DO INSTEAD NOTHING`, `ALTER TABLE errand.jobs DISABLE RULE mine`,
		},
		"a trigger that always fires": {`ALTER TABLE errand.jobs ENABLE ALWAYS TRIGGER jobs_values_check_insert`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, q := opstest.Fresh(t)
			for _, statement := range statements {
				opstest.Exec(t, db, statement)
			}
			if found := opstest.Examine(t, q, doctor.Options{}); len(found) > 0 {
				t.Errorf("found %v, want nothing", found)
			}
		})
	}
}

// TestSchemaNames: doctor examines a schema of any name, also one that is an alias in errand's
// functions, a value in its tables, or has capital letters.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jobs", "s", "r", "excluded", "last", "New", "Mixed", "errand_errand", "user"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.Empty(t)
			o := postgres.Options{Schema: name}
			if err := postgres.Migrate(t.Context(), db, o); err != nil {
				t.Fatal(err)
			}
			report, err := doctor.Examine(t.Context(), opstest.Backend(t, db, o), doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range report.Checks {
				if c.Level != ops.OK && c.ID != "durability" && c.ID != "listen" {
					t.Errorf("%s: %s: %s", c.ID, c.Level, c.Value)
				}
			}
		})
	}
}
