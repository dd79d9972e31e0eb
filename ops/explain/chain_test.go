package explain_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// lockChains are sessions that wait for each other, and at last for first: a session, or a prepared
// transaction if that is 0.
var lockChains = []struct {
	name   string
	reason string
	make   func(t *testing.T, db *sql.DB, id int64) (first, last int)
	remedy string // of doctor and explain; %d is the first session
}{
	{"a reader before a statement that changes the table", "table-locked", func(t *testing.T, db *sql.DB, _ int64) (first, last int) {
		reader := opstest.Begin(t, db)
		opstest.Exec(t, reader, `SELECT FROM errand.jobs`)
		return opstest.PidOf(t, reader), opstest.Hang(t, db, `SELECT 1`, `ALTER TABLE errand.jobs ADD COLUMN mine integer`)
	}, "pg_terminate_backend(%d)"},
	{"two before one", "table-locked", func(t *testing.T, db *sql.DB, _ int64) (first, last int) {
		holder := opstest.Begin(t, db)
		opstest.Exec(t, holder, `SELECT pg_advisory_xact_lock(1)`)
		opstest.Hang(t, db, `SELECT FROM errand.jobs`, `SELECT pg_advisory_xact_lock(1)`)
		return opstest.PidOf(t, holder), opstest.Hang(t, db, `SELECT 1`, `LOCK TABLE errand.jobs`)
	}, "pg_terminate_backend(%d)"},
	{"a prepared transaction", "table-locked", func(t *testing.T, db *sql.DB, _ int64) (first, last int) {
		opstest.Prepare(t, db, `UPDATE errand.jobs SET priority = priority`)
		return 0, opstest.Hang(t, db, `SELECT 1`, `ALTER TABLE errand.jobs ADD COLUMN mine integer`)
	}, "ROLLBACK PREPARED 'ops_test_"},
	{"one that has locked the job", "row-locked", func(t *testing.T, db *sql.DB, id int64) (first, last int) {
		holder := opstest.Begin(t, db)
		opstest.Exec(t, holder, `SELECT pg_advisory_xact_lock(1)`)
		return opstest.PidOf(t, holder), opstest.Hang(t, db, fmt.Sprintf(`SELECT FROM errand.jobs WHERE id = %d FOR UPDATE`, id), `SELECT pg_advisory_xact_lock(1)`)
	}, "pg_terminate_backend(%d)"},
}

// TestChain: of sessions that wait for each other explain and doctor name the one first that waits
// for none, and then the one for which claims wait.
func TestChain(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, c := range lockChains {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			db := opstest.OpenPQ(t, dsn)
			prefix := opstest.Roles(t, db)
			q := opstest.Backend(t, db, postgres.Options{})
			opstest.Report(t, q, opstest.Idle)
			id := opstest.Enqueue(t, q, queue.Job{})
			first, last := c.make(t, db, id)
			remedy := c.remedy
			begins := `the prepared transaction "`
			if first > 0 {
				remedy, begins = fmt.Sprintf(c.remedy, first), fmt.Sprintf("session %d", first)
			}
			then := fmt.Sprintf("session %d", last)
			observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
			for role, q := range map[string]*postgres.Backend{"owner": q, "observer": observer} {
				a := opstest.Explain(t, q, explain.Question{ID: id})
				opstest.WantReason(t, a, c.reason)
				r := a.Reasons[0]
				if e := r.Evidence; !strings.HasPrefix(e[0], begins) || !strings.HasPrefix(e[len(e)-1], then) || !strings.Contains(r.Remedy, remedy) {
					t.Errorf("%s: got %q → %s, want %s first and %s last", role, e, r.Remedy, begins, then)
				}
				if !strings.HasSuffix(r.Remedy, fmt.Sprintf("SELECT pg_cancel_backend(%d)", last)) {
					t.Errorf("%s: got %s, want how to end session %d", role, r.Remedy, last)
				}
				if c.reason == "row-locked" {
					continue // claims pass over it, so nobody waits
				}
				found := opstest.Examine(t, q, doctor.Options{})
				f := found["waits"]
				if _, value, _ := strings.Cut(f.Value, "so claims wait: "); !strings.HasPrefix(value, begins) || !strings.Contains(value, "; "+then) || !strings.Contains(f.Advice, remedy) {
					t.Errorf("%s: got %+v, want %s first and then %s", role, f, begins, then)
				}
			}
		})
	}
}

// TestChainUnknown: a role that may not ask for what a session waits is told all the same which
// session has locked the table.
func TestChainUnknown(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := opstest.OpenPQ(t, dsn)
	prefix := opstest.Roles(t, db)
	q := opstest.Backend(t, db, postgres.Options{})
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Exec(t, db, `REVOKE EXECUTE ON FUNCTION pg_blocking_pids FROM PUBLIC`)
	holder := opstest.Begin(t, db)
	opstest.Exec(t, holder, `LOCK TABLE errand.jobs`)
	time.Sleep(1100 * time.Millisecond)
	observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	session := fmt.Sprintf("session %d", opstest.PidOf(t, holder))
	a := opstest.Explain(t, observer, explain.Question{ID: id})
	opstest.WantReason(t, a, "table-locked")
	if e := a.Reasons[0].Evidence; len(e) != 1 || !strings.HasPrefix(e[0], session) {
		t.Errorf("Explain: got %q, want %s", e, session)
	}
	if c := opstest.Examine(t, observer, doctor.Options{})["waits"]; c.Level != ops.Fail || !strings.Contains(c.Value, session) {
		t.Errorf("Doctor: found %+v, want %s", c, session)
	}
}

// TestLockedTables: a lock on any table of errand's is named by doctor, with its session, and by
// Explain, which waits for none of them.
func TestLockedTables(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, table := range []string{"rules", "rules_version", "workers", "schedules", "paused_kinds", "audit"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			db, q := opstest.Fresh(t)
			opstest.Report(t, q, opstest.Idle)
			id := opstest.Enqueue(t, q, queue.Job{})
			done := opstest.Enqueue(t, q, queue.Job{Priority: -1})
			holder := opstest.Begin(t, db)
			opstest.Settle(t, q, queue.Outcome{Job: claimOne(t, q), Action: queue.Done})
			opstest.Exec(t, holder, `LOCK TABLE errand.`+table)
			time.Sleep(1100 * time.Millisecond)
			session := fmt.Sprintf("session %d", opstest.PidOf(t, holder))
			for _, question := range []explain.Question{{ID: id}, {Kind: "test"}, {Queue: "q"}, {Key: "k"}} {
				a := opstest.Explain(t, q, question)
				opstest.WantReason(t, a, "table-locked")
				if r := a.Reasons[0]; !strings.HasPrefix(r.Evidence[0], session) || !strings.Contains(r.Verdict, "the table of "+table) {
					t.Errorf("%+v: got %+v, want %s", question, r, session)
				}
			}
			opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: done}), "completed")
			found := opstest.Examine(t, q, doctor.Options{})
			if c := found["waits"]; !strings.Contains(c.Value, "the whole table of "+table) || !strings.Contains(c.Value, session) {
				t.Errorf("found %+v, want %s", c, session)
			}
		})
	}
}

// claimOne claims the first due job.
func claimOne(t *testing.T, q queue.Consumer) *queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claimed %d, error %v", len(jobs), err)
	}
	return jobs[0]
}
