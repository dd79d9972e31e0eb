package postgres_test

import (
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue/driver"
)

// TestReportsLockInOrder: a call that waits for a worker's row has locked none of a later name, and
// no statistics, whatever the reports are. Otherwise two calls with the same workers could
// deadlock.
func TestReportsLockInOrder(t *testing.T) {
	t.Parallel()
	for name, isStopped := range map[string]struct{ a, b bool }{
		"reports": {}, "stop of the first": {a: true}, "stop of the second": {b: true}, "stops": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			db, q := fresh(t, postgres.Options{})
			a, b := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "a"}}, driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "b"}}
			a.Stats = []driver.MinuteStats{{Queue: "q", Kind: "k"}}
			for _, r := range []driver.WorkerReport{b, a} { // their rows in the table are in this order
				if err := q.ReportWorkers(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			exec(t, tx, `UPDATE errand.workers SET seen_at = seen_at WHERE worker = 'a'`)
			a.Stopped, b.Stopped = isStopped.a, isStopped.b
			reported := make(chan error, 1)
			go func() { reported <- q.ReportWorkers(t.Context(), a, b) }()
			eventually(t, "ReportWorkers waits", func() bool { return waiting(t, db) == 1 })
			if got := value[int](t, db, `SELECT count(*) FROM (SELECT FROM errand.workers WHERE worker = 'b' FOR UPDATE SKIP LOCKED) AS free`); got != 1 {
				t.Error("ReportWorkers waits for worker a and has locked b")
			}
			if got := value[int](t, db, `SELECT count(*) FROM (SELECT FROM errand.stats FOR UPDATE SKIP LOCKED) AS free`); got != 1 {
				t.Error("ReportWorkers waits for worker a and has locked statistics")
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-reported; err != nil {
				t.Fatal(err)
			}
			left := 0
			for _, stopped := range []bool{a.Stopped, b.Stopped} {
				if !stopped {
					left++
				}
			}
			if got := value[int](t, db, `SELECT count(*) FROM errand.workers`); got != left {
				t.Errorf("got %d workers, want %d", got, left)
			}
		})
	}
}
