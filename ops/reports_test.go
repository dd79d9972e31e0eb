package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// TestHeldReports: a worker whose reports wait for a transaction counts as alive, and the
// transaction is named.
func TestHeldReports(t *testing.T) {
	t.Parallel()
	db, q := fresh(t)
	held := enqueue(t, q, queue.Job{})
	run(t, queue.Worker{Backend: q, Handler: blocks, Name: "patient", Concurrency: 1, Prefetch: -1})
	holder := begin(t, db)
	exec(t, holder, `SELECT FROM errand.workers FOR UPDATE`)
	eventually(t, "a report of the worker is late", func() bool { return workers(t, q)[0].Silent > 13*time.Second })
	session := fmt.Sprintf("session %d", pidOf(t, holder))
	for reason, id := range map[string]int64{"running": held, "workers-busy": enqueue(t, q, queue.Job{})} {
		a := explain(t, q, ops.Question{ID: id})
		wantReason(t, a, reason)
		if got := strings.Join(a.Unknown, "\n"); !strings.Contains(got, "whether these workers live") || !strings.Contains(got, "patient") || !strings.Contains(got, session) {
			t.Errorf("%s: not known: %q, want that %s holds up the reports of patient", reason, got, session)
		}
	}
	found := examine(t, q, ops.Options{})
	delete(found, "waits") // while a report waits, it is a finding, too
	if c := found["fleet"]; len(found) != 1 || c.Level != ops.Warn || !strings.Contains(c.Value, session) || !strings.Contains(c.Advice, "pg_terminate_backend(") {
		t.Errorf("found %+v, want fleet with %s", found, session)
	}
	_ = holder.Rollback()
	eventually(t, "the worker has reported itself", func() bool { return workers(t, q)[0].Silent < 5*time.Second })
	if found := examine(t, q, ops.Options{}); len(found) > 0 {
		t.Errorf("after the transaction: found %v", found)
	}
}

// TestVanishedBeforeLock: a transaction that is younger than a worker's silence does not explain
// it.
func TestVanishedBeforeLock(t *testing.T) {
	t.Parallel()
	db, q := fresh(t)
	report(t, q, idle)
	exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute'`)
	exec(t, begin(t, db), `SELECT FROM errand.workers FOR UPDATE`)
	time.Sleep(4100 * time.Millisecond) // longer than any report waits
	a := explain(t, q, ops.Question{ID: enqueue(t, q, queue.Job{})})
	wantReason(t, a, "no-worker")
	if len(a.Unknown) > 0 {
		t.Errorf("not known: %q", a.Unknown)
	}
}
