package sqlite_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
)

// planOf is what SQLite says that it will do.
func planOf(t *testing.T, db *sql.DB, text string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, parameters(text)...)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// parameters are as many as the statement has.
func parameters(text string) (args []any) {
	for n := 1; strings.Contains(text, fmt.Sprintf("?%d", n)); n++ {
		args = append(args, nil)
	}
	return args
}

// TestPlans: the statements find rows by the index that their file names, with the statistics of an
// empty table, of one with three jobs, of a full one, and without any.
func TestPlans(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		name := dsn(t)
		db := open(t, driver, name)
		migrate(t, db, sqlite.Options{})
		check := func(state string) {
			t.Helper()
			fresh := open(t, driver, name) // a connection reads the statistics once
			for statement, index := range map[string]string{
				"due": "errand_jobs_pending (queue=? AND priority=? AND scheduled_at<?)", "due_beyond": "errand_jobs_pending (queue=? AND priority>?)",
				"next_priority": "errand_jobs_pending (queue=? AND priority>?)", "sleep": "errand_jobs_pending (queue=? AND priority=? AND scheduled_at>?)",
				"backlog": "errand_jobs_pending (queue=? AND priority=?)", "count_few": "errand_jobs_pending (queue=?)",
				"extend": "errand_jobs_running (id=?)", "reassign": "errand_jobs_running (id=?)", "settle_done": "errand_jobs_running (id=?)", "settle_drop": "errand_jobs_running (id=?)",
				"settle": "errand_jobs_running (id=?)", "take": "errand_jobs_pending (queue=? AND priority=? AND scheduled_at=? AND rowid=?)", "reclaim": "errand_jobs_running (id=?)", "expired": "errand_jobs_running",
				"redrive": "PRIMARY KEY (rowid", "delete": "PRIMARY KEY (rowid", "edit": "PRIMARY KEY (rowid", "cancel": "PRIMARY KEY (rowid", "choose": "errand_jobs_pending", "live": "errand_jobs_key (queue=? AND job_key=?)", "give_up": "errand_jobs_key (queue=? AND job_key=?)",
				"prune": "PRIMARY KEY (rowid=?)", "archive": "PRIMARY KEY (rowid=?)", "old": "PRIMARY KEY (rowid>?)",
				"list": "PRIMARY KEY (rowid<?)", "list_pending": "PRIMARY KEY (rowid=?)", "count_sample": "PRIMARY KEY (rowid=?)",
			} {
				plan := planOf(t, fresh, sqlite.Statement(statement))
				if !strings.Contains(plan, index) || scans(plan) || strings.Contains(plan, "AUTOMATIC") {
					t.Errorf("%s, %s: want %s, and no scan of the table, got\n%s", state, statement, index, plan)
				}
				if strings.HasPrefix(statement, "due") && strings.Contains(plan, "ORDER BY") {
					t.Errorf("%s, %s: want the order of the index, got\n%s", state, statement, plan)
				}
			}
		}
		check("new")
		execute(t, db, `ANALYZE`)
		check("analyzed while empty")
		aged(t, db, "pending", 1, 3)
		execute(t, db, `ANALYZE`)
		check("analyzed with three jobs")
		aged(t, db, "pending", 1, 50_000)
		aged(t, db, "completed", 1, 50_000)
		check("filled, statistics of three jobs")
		execute(t, db, `ANALYZE`)
		check("analyzed while full")
		execute(t, db, `DELETE FROM errand_jobs`)
		execute(t, db, `PRAGMA optimize`)
		check("emptied again")
	})
}

// scans says whether a plan reads the whole table of jobs. What is read along one of the indexes of
// what is live or dead is not that.
func scans(plan string) bool {
	for line := range strings.Lines(plan) {
		for _, table := range []string{"errand_jobs", "j"} {
			if strings.TrimSpace(line) == "SCAN "+table {
				return true
			}
		}
	}
	return false
}
