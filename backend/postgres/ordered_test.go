package postgres_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// fillOrdered writes ordered jobs of a queue: one group of that many jobs, and as many groups of
// three.
func fillOrdered(t *testing.T, db *sql.DB, long, groups int) {
	t.Helper()
	exec(t, db, fmt.Sprintf(`INSERT INTO errand.jobs (kind, priority, job_group, ordered, payload)
		SELECT 'k', 2147483647, CASE WHEN i <= %d THEN 'g' ELSE 'g' || i %% %d END, true, '1' FROM generate_series(1, %d) i`,
		long, groups, long+3*groups))
}

// rowsRead returns how many rows of the table f reads, and in how many sequential scans.
func rowsRead(t *testing.T, tx *sql.Tx, f func()) (rows, scans int) {
	t.Helper()
	read := func() (rows, scans int) {
		err := tx.QueryRowContext(t.Context(), `SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables
			WHERE schemaname = 'errand' AND relname = 'jobs'`).Scan(&scans, &rows)
		if err != nil {
			t.Fatal(err)
		}
		return rows, scans
	}
	rows, scans = read()
	f()
	nowRows, nowScans := read()
	return nowRows - rows, nowScans - scans
}

// TestOrderedClaims: a claim of ordered jobs reads one row for each group, however many jobs the
// groups have and whatever the statistics say, and other claims read none of them.
func TestOrderedClaims(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	check := func(state string) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		exec(t, tx, "DISCARD PLANS")
		var locked int
		rows, scans := rowsRead(t, tx, func() {
			locked = value[int](t, tx, "SELECT cardinality(places) FROM errand.lock_ordered('default', NULL, 500, 'g', '1ms')")
		})
		if locked != 500 || scans != 0 || rows > 2*locked+10 { // the head, and the row to lock
			t.Errorf("%s: lock_ordered locked %d rows, reading %d in %d sequential scans; want 500, about twice as many, none", state, locked, rows, scans)
		}
		rows, scans = rowsRead(t, tx, func() {
			locked = value[int](t, tx, "SELECT cardinality(errand.lock_due('{default}', NULL, 500, '1ms'))")
		})
		if locked != 0 || rows > 2 || scans != 0 {
			t.Errorf("%s: lock_due locked %d rows, reading %d in %d sequential scans; want none", state, locked, rows, scans)
		}
	}
	fillOrdered(t, db, 6000, 2000)
	check("without statistics")
	exec(t, db, "ANALYZE errand.jobs")
	check("with statistics")
	exec(t, db, "DELETE FROM errand.jobs; ANALYZE errand.jobs")
	fillOrdered(t, db, 6000, 2000)
	check("with statistics of an empty table")

	enqueue(t, q, jobs(1)...)
	if got := claim(t, q, 1); len(got) != 1 || got[0].Ordered {
		t.Errorf("first claim: got %v, want the job that is not ordered", got)
	}
	if got := claim(t, q, 3000); len(got) != 2001 || !got[0].Ordered || got[0].Priority != 0 {
		t.Errorf("second claim: got %d jobs, want the first of 2,001 groups", len(got))
	}
}

// TestOrderedOnce: no statement makes a second job of a group run.
func TestOrderedOnce(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	for range 2 {
		exec(t, db, `SELECT errand.enqueue('default', 'k', job_group => 'g', ordered => true)`)
	}
	if got := claim(t, q, 5); len(got) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(got))
	}
	_, err := db.ExecContext(t.Context(), `UPDATE errand.jobs SET status = 'running' WHERE status = 'pending'`)
	if err == nil || !strings.Contains(err.Error(), "jobs_ordered_one_idx") {
		t.Errorf("making another one run with SQL: got %v, want an error of jobs_ordered_one_idx", err)
	}
}

// TestOrderedSQLFunction: the SQL function has the rules of Job.Check.
func TestOrderedSQLFunction(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	for args, want := range map[string]string{
		"ordered => true": "ordered", "ordered => true, job_group => 'g', priority => 1": "priority", "priority => 2147483647": "priority",
	} {
		_, err := db.ExecContext(t.Context(), `SELECT errand.enqueue('default', 'k', `+args+`)`)
		if err == nil || !strings.Contains(err.Error(), "errand: invalid "+want) {
			t.Errorf("enqueue(%s): got %v, want an error that names %s", args, err, want)
		}
	}
	exec(t, db, `SELECT errand.enqueue('default', 'k', job_group => 'g', ordered => true, job_key => 'a')`)
	exec(t, db, `SELECT errand.enqueue('default', 'l', job_group => 'g', ordered => true, job_key => 'a', on_duplicate => 'replace')`)
	exec(t, db, `SELECT errand.enqueue('default', 'k', job_group => 'g', ordered => false)`)
	got := claim(t, q, 5)
	if len(got) != 2 || got[0].Ordered || !got[1].Ordered || got[1].Kind != "l" {
		t.Errorf("claimed %v, want a job that is not ordered, and the ordered one that replaced another", got)
	}
}

// TestOrderedBlocked: a claim walks over thousands of groups whose first jobs are not due.
func TestOrderedBlocked(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `INSERT INTO errand.jobs (kind, priority, job_group, ordered, scheduled_at)
		SELECT 'k', 2147483647, 'g' || i, true, now() + interval '1 hour' FROM generate_series(1, 5000) i`)
	last := &queue.Job{Kind: "k", Group: "z", Ordered: true}
	enqueue(t, q, last)
	for range 20 {
		if got := claim(t, q, 10); len(got) == 1 && got[0].ID == last.ID {
			return
		}
	}
	t.Error("20 claims have not found the job behind 5,000 groups that wait")
}
