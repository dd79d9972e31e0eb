package ops_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// pidOf returns the process of a session.
func pidOf(t *testing.T, tx *sql.Tx) (pid int) {
	t.Helper()
	if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// hang runs a statement in a transaction of its own until the end of the test, and returns its
// session when that has waited for a lock for a while.
func hang(t *testing.T, db *sql.DB, before, statement string) (pid int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	pid = pidOf(t, tx)
	exec(t, tx, before)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = tx.ExecContext(ctx, statement)
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "the statement waits", func() (waits bool) {
		err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`, pid).Scan(&waits)
		return err == nil && waits
	})
	time.Sleep(1100 * time.Millisecond)
	return pid
}

// lockChains are sessions that wait for each other, and at last for first: a session, or a prepared
// transaction if that is 0.
var lockChains = []struct {
	name   string
	reason string
	make   func(t *testing.T, db *sql.DB, id int64) (first, last int)
	remedy string // of doctor and explain; %d is the first session
}{
	{"a reader before a statement that changes the table", "table-locked", func(t *testing.T, db *sql.DB, _ int64) (first, last int) {
		reader := begin(t, db)
		exec(t, reader, `SELECT FROM errand.jobs`)
		return pidOf(t, reader), hang(t, db, `SELECT 1`, `ALTER TABLE errand.jobs ADD COLUMN mine integer`)
	}, "pg_terminate_backend(%d)"},
	{"two before one", "table-locked", func(t *testing.T, db *sql.DB, _ int64) (first, last int) {
		holder := begin(t, db)
		exec(t, holder, `SELECT pg_advisory_xact_lock(1)`)
		hang(t, db, `SELECT FROM errand.jobs`, `SELECT pg_advisory_xact_lock(1)`)
		return pidOf(t, holder), hang(t, db, `SELECT 1`, `LOCK TABLE errand.jobs`)
	}, "pg_terminate_backend(%d)"},
	{"a prepared transaction", "table-locked", func(t *testing.T, db *sql.DB, _ int64) (first, last int) {
		prepare(t, db, `UPDATE errand.jobs SET priority = priority`)
		return 0, hang(t, db, `SELECT 1`, `ALTER TABLE errand.jobs ADD COLUMN mine integer`)
	}, "ROLLBACK PREPARED 'ops_test_"},
	{"one that has locked the job", "row-locked", func(t *testing.T, db *sql.DB, id int64) (first, last int) {
		holder := begin(t, db)
		exec(t, holder, `SELECT pg_advisory_xact_lock(1)`)
		return pidOf(t, holder), hang(t, db, fmt.Sprintf(`SELECT FROM errand.jobs WHERE id = %d FOR UPDATE`, id), `SELECT pg_advisory_xact_lock(1)`)
	}, "pg_terminate_backend(%d)"},
}

// TestChain: of sessions that wait for each other Explain and Doctor name the one first that waits
// for none, and then the one for which claims wait.
func TestChain(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, c := range lockChains {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			db := openPQ(t, dsn)
			prefix := roles(t, db)
			q := backend(t, db, postgres.Options{})
			report(t, q, idle)
			id := enqueue(t, q, queue.Job{})
			first, last := c.make(t, db, id)
			remedy := c.remedy
			begins := `the prepared transaction "`
			if first > 0 {
				remedy, begins = fmt.Sprintf(c.remedy, first), fmt.Sprintf("session %d", first)
			}
			then := fmt.Sprintf("session %d", last)
			observer := backend(t, openPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
			for role, q := range map[string]*postgres.Backend{"owner": q, "observer": observer} {
				a := explain(t, q, ops.Question{ID: id})
				wantReason(t, a, c.reason)
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
				found := examine(t, q, ops.Options{})
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
	db := openPQ(t, dsn)
	prefix := roles(t, db)
	q := backend(t, db, postgres.Options{})
	report(t, q, idle)
	id := enqueue(t, q, queue.Job{})
	exec(t, db, `REVOKE EXECUTE ON FUNCTION pg_blocking_pids FROM PUBLIC`)
	holder := begin(t, db)
	exec(t, holder, `LOCK TABLE errand.jobs`)
	time.Sleep(1100 * time.Millisecond)
	observer := backend(t, openPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	session := fmt.Sprintf("session %d", pidOf(t, holder))
	a := explain(t, observer, ops.Question{ID: id})
	wantReason(t, a, "table-locked")
	if e := a.Reasons[0].Evidence; len(e) != 1 || !strings.HasPrefix(e[0], session) {
		t.Errorf("Explain: got %q, want %s", e, session)
	}
	if c := examine(t, observer, ops.Options{})["waits"]; c.Level != ops.Fail || !strings.Contains(c.Value, session) {
		t.Errorf("Doctor: found %+v, want %s", c, session)
	}
}

// TestLockedTables: a lock on any table of errand's is named by Doctor, with its session, and by
// Explain, which waits for none of them.
func TestLockedTables(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, table := range []string{"rules", "rules_version", "workers", "schedules", "paused_kinds", "audit"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			db, q := fresh(t)
			report(t, q, idle)
			id := enqueue(t, q, queue.Job{})
			done := enqueue(t, q, queue.Job{Priority: -1})
			holder := begin(t, db)
			settle(t, q, queue.Outcome{Job: claimOne(t, q), Action: queue.Done})
			exec(t, holder, `LOCK TABLE errand.`+table)
			time.Sleep(1100 * time.Millisecond)
			session := fmt.Sprintf("session %d", pidOf(t, holder))
			for _, question := range []ops.Question{{ID: id}, {Kind: "test"}, {Queue: "q"}, {Key: "k"}} {
				a := explain(t, q, question)
				wantReason(t, a, "table-locked")
				if r := a.Reasons[0]; !strings.HasPrefix(r.Evidence[0], session) || !strings.Contains(r.Verdict, "the table of "+table) {
					t.Errorf("%+v: got %+v, want %s", question, r, session)
				}
			}
			wantReason(t, explain(t, q, ops.Question{ID: done}), "completed")
			found := examine(t, q, ops.Options{})
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

// TestWaitsForRule: Doctor names a session for which others wait at a row of a table other than
// that of jobs.
func TestWaitsForRule(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t)
	setRules(t, q, queue.Rule{Queue: "q", Running: 1})
	holder := begin(t, db)
	exec(t, holder, `SELECT FROM errand.rules FOR UPDATE`)
	hang(t, db, `SELECT 1`, `UPDATE errand.rules SET running = 2`)
	if c := examine(t, q, ops.Options{})["waits"]; !strings.HasPrefix(c.Value, fmt.Sprintf("session %d", pidOf(t, holder))) || !strings.HasSuffix(c.Value, "1 session waits for it") {
		t.Errorf("found %+v", c)
	}
}
