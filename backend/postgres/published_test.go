package postgres_test

import (
	"fmt"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
)

// TestPrimaryKeys: every table has a primary key. Change-data capture, blue/green upgrades and
// other tools of logical replication ask for it.
func TestPrimaryKeys(t *testing.T) {
	db := postgrestest.Open(t)
	const keyless = `SELECT coalesce(string_agg(c.relname, ', '), '') FROM pg_class c
		WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
			AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)`
	if got := value[string](t, db, keyless); got != "" {
		t.Errorf("tables without a primary key: %s", got)
	}
}

// TestKeyOfArchive: the step that gives jobs_archive a key takes an archive as its owner has left
// it. After the step its rows can be changed under a publication.
func TestKeyOfArchive(t *testing.T) {
	const rows = `INSERT INTO errand.jobs_archive SELECT * FROM errand.jobs;`
	for name, test := range map[string]struct{ before, want string }{
		"empty":       {``, "PRIMARY KEY (id, updated_at)"},
		"rows":        {rows + `UPDATE errand.jobs SET updated_at = now();` + rows, "PRIMARY KEY (id, updated_at)"},
		"equal rows":  {rows + rows, "identity f"},
		"index":       {rows + `CREATE UNIQUE INDEX jobs_archive_pkey ON errand.jobs_archive (id, updated_at)`, "PRIMARY KEY (id, updated_at)"},
		"key":         {`ALTER TABLE errand.jobs_archive ADD CONSTRAINT own PRIMARY KEY (id)`, "PRIMARY KEY (id)"},
		"partitioned": {`DROP TABLE errand.jobs_archive; CREATE TABLE errand.jobs_archive (LIKE errand.jobs) PARTITION BY RANGE (created_at)`, "identity d"},
	} {
		t.Run(name, func(t *testing.T) {
			db := postgrestest.Empty(t)
			steps, err := postgres.Migrations(postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				if s.Name == "keys" {
					exec(t, db, `INSERT INTO errand.jobs (queue) VALUES ('a'), ('b')`)
					exec(t, db, test.before)
				}
				exec(t, db, s.SQL)
			}
			got := value[string](t, db, fmt.Sprintf(`SELECT coalesce(
				(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '%[1]s'::regclass AND contype = 'p'),
				(SELECT 'identity ' || relreplident::text FROM pg_class WHERE oid = '%[1]s'::regclass))`, "errand.jobs_archive"))
			if got != test.want {
				t.Errorf("the archive has %s, want %s", got, test.want)
			}
		})
	}
}
