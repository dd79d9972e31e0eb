package ops_test

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// roles runs docs/roles.sql with role names that are the test's own, and returns what they begin
// with.
func roles(t *testing.T, db *sql.DB) (prefix string) {
	t.Helper()
	prefix = strings.ReplaceAll(database(t, db), "errand_test_", "ops_") + "_"
	text, err := os.ReadFile("../docs/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, strings.ReplaceAll(string(text), "errand_", prefix))
	t.Cleanup(func() {
		if _, err := db.Exec(`DO $$
			DECLARE role regrole;
			BEGIN
				FOR role IN SELECT oid::regrole FROM pg_roles WHERE starts_with(rolname, '` + prefix + `') LOOP
					EXECUTE format('REASSIGN OWNED BY %s TO CURRENT_USER', role);
					EXECUTE format('DROP OWNED BY %s', role);
					EXECUTE format('DROP ROLE %s', role);
				END LOOP;
			END $$`); err != nil {
			t.Error(err)
		}
	})
	return prefix
}

// TestObserver: the observing role of docs/roles.sql may ask both, here over lib/pq. They find the
// same, and say what the role cannot know.
func TestObserver(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := openPQ(t, dsn)
	prefix := roles(t, db)
	q := backend(t, db, postgres.Options{})
	observer := backend(t, openPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	var id int64
	for name, as := range map[string]*postgres.Backend{queue.DefaultQueue: q, "q": observer} {
		if found := examine(t, as, ops.Options{}); len(found) > 0 {
			t.Errorf("found %v", found)
		}
		report(t, q, idle) // a report and a job are young for some seconds
		id = enqueue(t, q, queue.Job{Queue: name})
		wantReason(t, explain(t, as, ops.Question{ID: id}), "just-due")
		wantReason(t, explain(t, as, ops.Question{Queue: name}), "just-due")
	}
	a := explain(t, observer, ops.Question{ID: id})
	if len(a.Unknown) > 0 {
		t.Errorf("not known: %q", a.Unknown)
	}
	wantReason(t, explain(t, observer, ops.Question{ID: id + 1}), "never-existed")
	exec(t, db, "REVOKE SELECT ON SEQUENCE errand.jobs_id_seq FROM "+prefix+"observer")
	a = explain(t, observer, ops.Question{ID: id + 1})
	wantReason(t, a, "no-such-job")
	if !strings.Contains(strings.Join(a.Unknown, "\n"), "permission denied for sequence jobs_id_seq") {
		t.Errorf("not known: %q", a.Unknown)
	}
	if !strings.Contains(strings.Join(a.Unknown, "\n"), "SELECT on the sequence errand.jobs_id_seq, as errand_observer") {
		t.Errorf("no right is named: %q", a.Unknown)
	}
}

// TestObserverSeesLocks: a role that may not see sessions of other roles still tells who has locked
// a job. Without the right to see the row's lock it says which transactions may have, and which
// right it lacks.
func TestObserverSeesLocks(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := openPQ(t, dsn)
	prefix := roles(t, db)
	q := backend(t, db, postgres.Options{})
	report(t, q, idle)
	id := enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(-time.Minute)})
	observer := backend(t, openPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	tx := begin(t, db)
	exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, id)
	a := explain(t, observer, ops.Question{ID: id})
	wantReason(t, a, "row-locked")
	if len(a.Unknown) > 0 {
		t.Errorf("not known: %q", a.Unknown)
	}
	exec(t, db, "REVOKE SELECT (xmax) ON errand.jobs FROM "+prefix+"observer")
	a = explain(t, observer, ops.Question{ID: id})
	wantReason(t, a, "perhaps-locked")
	if !strings.Contains(strings.Join(a.Unknown, "\n"), "SELECT (xmax) on errand.jobs, as errand_observer") {
		t.Errorf("not known: %q", a.Unknown)
	}
	_ = tx.Rollback()
	a = explain(t, observer, ops.Question{ID: id})
	wantReason(t, a, "unexplained")
	if r := a.Reasons[0]; r.Level != ops.Warn || strings.Contains(fmt.Sprint(r.Evidence), "is seen that has locked it") {
		t.Errorf("%s: %q, want a warning that claims nothing of locks", r.Level, r.Evidence)
	}
}

// TestObserverSeesWaits: Doctor tells a role that may not see sessions of other roles which
// sessions wait for which, and which has locked the whole table.
func TestObserverSeesWaits(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := openPQ(t, dsn)
	if majorVersion(t, db) < 14 {
		t.Skip("the server does not tell since when a session waits")
	}
	prefix := roles(t, db)
	q := backend(t, db, postgres.Options{})
	id := enqueue(t, q, queue.Job{Delay: time.Hour})
	observer := backend(t, openPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	waits := func() (c ops.Check) {
		t.Helper()
		report, err := ops.Doctor(t.Context(), observer, ops.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range report.Checks {
			if check.ID == "waits" {
				c = check
			}
		}
		return c
	}
	if c := waits(); c.Level != ops.OK {
		t.Errorf("nobody waits: %s, %s", c.Level, c.Value)
	}
	tx := begin(t, db)
	exec(t, tx, `UPDATE errand.jobs SET priority = 1 WHERE id = $1`, id)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = db.ExecContext(t.Context(), `UPDATE errand.jobs SET priority = 2 WHERE id = $1`, id)
	}()
	eventually(t, "a session has waited for a second", func() (has bool) {
		const query = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND waitstart < clock_timestamp() - interval '1 second'
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`
		return db.QueryRowContext(t.Context(), query).Scan(&has) == nil && has
	})
	waited := regexp.MustCompile(`^session \d+.*: others have waited for up to \S+; 1 session waits for it$`)
	if c := waits(); c.Level != ops.Warn || !waited.MatchString(c.Value) || !strings.Contains(c.Advice, "pg_terminate_backend(") {
		t.Errorf("a session waits: %s, %s → %s", c.Level, c.Value, c.Advice)
	}
	_ = tx.Rollback()
	<-done
	exec(t, begin(t, db), `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`)
	if c := waits(); c.Level != ops.Fail || !strings.Contains(c.Value, "the whole table of jobs is locked") {
		t.Errorf("the table is locked: %s, %s", c.Level, c.Value)
	}
}

// TestGoldenRights: rights.txt is what docs/roles.sql grants. After a change of it run
// go test ./ops -run TestGoldenRights -update.
func TestGoldenRights(t *testing.T) {
	t.Parallel()
	const path = "sql/postgres/rights.txt"
	db := postgrestest.Open(t)
	prefix := roles(t, db)
	query, err := os.ReadFile("sql/postgres/grants.sql")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), string(query))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var role, object, right string
		if err := rows.Scan(&role, &object, &right); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\n", strings.TrimPrefix(role, prefix), object, right)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if golden, err := os.ReadFile(path); err != nil || b.String() != string(golden) {
		t.Errorf("docs/roles.sql grants other rights, error %v: run go test ./ops -run TestGoldenRights -update", err)
	}
}

// TestRights: Doctor finds a right too many of a role of docs/roles.sql, and one that is missing,
// and nothing else.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change string // of the role whose name is %s
		role   string
		level  ops.Level
		says   string
	}{
		{"GRANT SELECT (payload) ON errand.jobs TO %s", "observer", ops.Warn, "observer has more: SELECT on the column jobs.payload"},
		{"GRANT SELECT ON errand.results TO %s", "operator", ops.Warn, "operator has more: SELECT on the table results"},
		{"REVOKE INSERT ON errand.jobs_archive FROM %s", "worker", ops.Fail, "worker lacks INSERT on the table jobs_archive"},
		{"REVOKE EXECUTE ON FUNCTION errand.enqueue FROM %s", "enqueuer", ops.Fail, "enqueuer lacks EXECUTE on the function enqueue"},
		{"GRANT SELECT ON errand.jobs TO %s", "stranger", "", ""},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			db, q := fresh(t)
			role := roles(t, db) + c.role
			if c.role == "stranger" {
				exec(t, db, "CREATE ROLE "+role)
			}
			exec(t, db, fmt.Sprintf(c.change, role))
			found := examine(t, q, ops.Options{})
			r, ok := found["rights"]
			if ok != (c.level != "") || len(found) > 1 || r.Level != c.level || !strings.Contains(r.Value, c.says) {
				t.Errorf("found %v, want rights %s, %q", found, c.level, c.says)
			}
		})
	}
}

func openPQ(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
