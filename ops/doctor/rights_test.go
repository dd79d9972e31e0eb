package doctor_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestObserverSeesWaits: doctor tells a role that may not see sessions of other roles which
// sessions wait for which, and which has locked the whole table.
func TestObserverSeesWaits(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := opstest.OpenPQ(t, dsn)
	if majorVersion(t, db) < 14 {
		t.Skip("the server does not tell since when a session waits")
	}
	prefix := opstest.Roles(t, db)
	q := opstest.Backend(t, db, postgres.Options{})
	id := opstest.Enqueue(t, q, queue.Job{Delay: time.Hour})
	observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	waits := func() (c doctor.Check) {
		t.Helper()
		report, err := doctor.Examine(t.Context(), observer, doctor.Options{})
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
	tx := opstest.Begin(t, db)
	opstest.Exec(t, tx, `UPDATE errand.jobs SET priority = 1 WHERE id = $1`, id)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = db.ExecContext(t.Context(), `UPDATE errand.jobs SET priority = 2 WHERE id = $1`, id)
	}()
	opstest.Eventually(t, "a session has waited for a second", func() (has bool) {
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
	opstest.Exec(t, opstest.Begin(t, db), `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`)
	if c := waits(); c.Level != ops.Fail || !strings.Contains(c.Value, "the whole table of jobs is locked") {
		t.Errorf("the table is locked: %s, %s", c.Level, c.Value)
	}
}

// TestRights: doctor finds a right too many of a role of docs/roles.sql, and one that is missing,
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
			db, q := opstest.Fresh(t)
			role := opstest.Roles(t, db) + c.role
			if c.role == "stranger" {
				opstest.Exec(t, db, "CREATE ROLE "+role)
			}
			opstest.Exec(t, db, fmt.Sprintf(c.change, role))
			found := opstest.Examine(t, q, doctor.Options{})
			r, ok := found["rights"]
			if ok != (c.level != "") || len(found) > 1 || r.Level != c.level || !strings.Contains(r.Value, c.says) {
				t.Errorf("found %v, want rights %s, %q", found, c.level, c.says)
			}
		})
	}
}
