package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestHeldReports: a worker whose reports wait for a transaction counts as alive, and the
// transaction is named.
func TestHeldReports(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := opstest.Fresh(t)
	held := opstest.Enqueue(t, q, queue.Job{})
	opstest.Run(t, engine.Worker{Backend: q, Handler: opstest.Blocks, Name: "patient", Concurrency: 1, Prefetch: -1})
	holder := opstest.Begin(t, db)
	opstest.Exec(t, holder, `SELECT FROM errand.workers FOR UPDATE`)
	opstest.Eventually(t, "a report of the worker is late", func() bool { return opstest.Workers(t, q)[0].Silent > 13*time.Second })
	session := fmt.Sprintf("session %d", opstest.PidOf(t, holder))
	for reason, id := range map[string]int64{"running": held, "workers-busy": opstest.Enqueue(t, q, queue.Job{})} {
		a := opstest.Explain(t, q, explain.Question{ID: id})
		opstest.WantReason(t, a, reason)
		if got := strings.Join(a.Unknown, "\n"); !strings.Contains(got, "whether these workers live") || !strings.Contains(got, "patient") || !strings.Contains(got, session) {
			t.Errorf("%s: not known: %q, want that %s holds up the reports of patient", reason, got, session)
		}
	}
	found := opstest.Examine(t, q, doctor.Options{})
	delete(found, "waits") // while a report waits, it is a finding, too
	if c := found["fleet"]; len(found) != 1 || c.Level != ops.Warn || !strings.Contains(c.Value, session) || !strings.Contains(c.Advice, "pg_terminate_backend(") {
		t.Errorf("found %+v, want fleet with %s", found, session)
	}
	_ = holder.Rollback()
	opstest.Eventually(t, "the worker has reported itself", func() bool { return opstest.Workers(t, q)[0].Silent < 5*time.Second })
	if found := opstest.Examine(t, q, doctor.Options{}); len(found) > 0 {
		t.Errorf("after the transaction: found %v", found)
	}
}

// TestVanishedBeforeLock: a transaction that is younger than a worker's silence does not explain
// it.
func TestVanishedBeforeLock(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, opstest.Idle)
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute'`)
	opstest.Exec(t, opstest.Begin(t, db), `SELECT FROM errand.workers FOR UPDATE`)
	time.Sleep(4100 * time.Millisecond) // longer than any report waits
	a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})})
	opstest.WantReason(t, a, "no-worker")
	if len(a.Unknown) > 0 {
		t.Errorf("not known: %q", a.Unknown)
	}
}

// TestReportedSince: a transaction does not explain the silence of a worker if others have reported
// themselves since it began, and no session waits for it.
func TestReportedSince(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := opstest.Fresh(t)
	dead := opstest.Idle
	dead.Name = "dead"
	opstest.Report(t, q, dead)
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '5 seconds'`)
	opstest.Exec(t, opstest.Begin(t, db), `DELETE FROM errand.stats WHERE minute < now() - interval '1 year'`)
	opstest.Eventually(t, "the transaction is older than a report", func() bool { return opstest.Workers(t, q)[0].Silent > 21*time.Second })
	opstest.Report(t, q, opstest.Idle)
	if f := opstest.Examine(t, q, doctor.Options{})["fleet"]; !strings.Contains(f.Value, "dead (silent for 2") {
		t.Errorf("found %+v, want that the worker is silent", f)
	}
	if a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}); len(a.Unknown) > 0 {
		t.Errorf("not known: %q", a.Unknown)
	}
}

// TestHeldReportsUnknown: a role that may not see since when a transaction is open takes silent
// workers for live ones only while a session waits for it. Doctor looks once, and skips no check.
func TestHeldReportsUnknown(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := opstest.OpenPQ(t, dsn)
	prefix := opstest.Roles(t, db)
	q := opstest.Backend(t, db, postgres.Options{})
	opstest.Report(t, q, opstest.Idle)
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute'`)
	id := opstest.Enqueue(t, q, queue.Job{})
	observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	holder := opstest.Begin(t, db)
	opstest.Exec(t, holder, `DELETE FROM errand.stats WHERE minute < now() - interval '1 year'`)
	opstest.Exec(t, holder, `SELECT FROM errand.workers FOR UPDATE`)
	a := opstest.Explain(t, observer, explain.Question{ID: id})
	opstest.WantReason(t, a, "no-worker")
	if len(a.Unknown) > 0 {
		t.Errorf("nobody waits: not known: %q", a.Unknown)
	}
	opstest.Hang(t, db, `SELECT 1`, `UPDATE errand.workers SET info = info`)
	a = opstest.Explain(t, observer, explain.Question{ID: id})
	session := fmt.Sprintf("session %d", opstest.PidOf(t, holder))
	if got := strings.Join(a.Unknown, "\n"); !strings.Contains(got, "whether these workers live: idle") || !strings.Contains(got, session) {
		t.Errorf("a session waits: not known: %q, want that %s holds up the reports of idle", got, session)
	}
	doctor, err := doctor.Examine(t.Context(), observer, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	for _, c := range doctor.Checks {
		looks += strings.Count(c.SQL, "reports of workers may wait")
		if c.ID == "fleet" && !strings.Contains(c.Value, session) || c.ID == "nobody-serves" && c.Level != ops.OK {
			t.Errorf("found %+v", c)
		}
	}
	if looks != 1 {
		t.Errorf("Doctor looked %d times who keeps reports waiting, want once", looks)
	}
}
