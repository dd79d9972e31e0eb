package main

import (
	"strings"
	"testing"
)

// TestDownDependents: in an SQLite file, objects that name errand's tables keep them. Those that
// only seem to do not.
func TestDownDependents(t *testing.T) {
	t.Parallel()
	database := backends[0].url(t, t.TempDir())
	d := openWithJobs(t, database, 1)
	alter(t, d, `CREATE TABLE orders (id INTEGER PRIMARY KEY, errand_job)`)
	for _, c := range []struct{ create, want string }{
		{`CREATE VIEW late AS SELECT id FROM main."Errand_Jobs" WHERE status = 'pending'`, "view late depends on table errand_jobs"},
		{`CREATE VIEW late AS SELECT o.id FROM orders o JOIN[errand_results] r ON r.job_id = o.id`, "view late depends on table errand_results"},
		{`CREATE VIEW late AS SELECT * FROM 'errand_audit'`, "view late depends on table errand_audit"},
		{"CREATE VIEW late AS SELECT count(*) /* all */ FROM\n`errand_stats`", "view late depends on table errand_stats"},
		{`CREATE TRIGGER late AFTER INSERT ON orders BEGIN DELETE FROM errand_jobs WHERE id = new.id; END`, "trigger late depends on table errand_jobs"},
		{`CREATE TRIGGER late AFTER INSERT ON errand_audit BEGIN DELETE FROM orders; END`, "trigger late depends on table errand_audit"},
		{`CREATE TABLE late (id REFERENCES ERRAND_JOBS (id))`, "table late depends on table errand_jobs"},
		{`CREATE VIRTUAL TABLE late USING fts5(kind, content='errand_jobs', content_rowid='id')`, "table late depends on table errand_jobs"},
	} {
		alter(t, d, c.create)
		down(t, database, exitRefused, "nothing was changed: other objects depend on errand's: "+c.want)
		if status := jobStatus(t, d, 1); status != "pending" {
			t.Errorf("%s: job 1 is %s", c.create, status)
		}
		alter(t, d, `DROP `+strings.Fields(strings.Replace(c.create, "VIRTUAL ", "", 1))[1]+` late`)
	}
	others := []string{
		`CREATE VIEW a AS SELECT id FROM orders -- not of errand_jobs`,
		`CREATE VIEW b AS SELECT errand_job, 'errand_jobs' AS said FROM orders WHERE errand_job <> 'errand_jobs' /* errand_jobs */`,
		`CREATE TABLE my_errand_jobs (id REFERENCES orders (id))`,
		`CREATE VIEW c AS SELECT id FROM my_errand_jobs`,
		`CREATE TRIGGER d AFTER INSERT ON orders BEGIN DELETE FROM my_errand_jobs; END`,
	}
	alter(t, d, others...)
	down(t, database, exitDone, "all tables are removed, with 1 rows of jobs")
	alter(t, d, `INSERT INTO orders DEFAULT VALUES`, `DROP VIEW a`, `DROP VIEW b`, `DROP VIEW c`)
}
