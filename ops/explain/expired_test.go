package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// expiredCases are fleets in which worker w has let its lease expire.
var expiredCases = []struct {
	name  string
	make  func(t *testing.T, q opstest.Backends)
	level ops.Level
	says  []string // in the verdict, the evidence or the remedy
}{
	{"no worker", func(*testing.T, opstest.Backends) {}, ops.Fail,
		[]string{"no worker is alive to reclaim it: start one", "the worker w does not report itself"}},
	{"its worker lives", func(t *testing.T, q opstest.Backends) {
		time.Sleep(20 * time.Millisecond) // it should have extended its lease before it reports itself
		opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"other"}})
	}, ops.Warn,
		[]string{"although its worker reports itself", "a live worker reclaims it within one more lease (1s). Alive: 1 worker", `"extend" in the log of w`}},
	{"another one lives", func(t *testing.T, q opstest.Backends) { opstest.Report(t, q, opstest.Idle) }, ops.Warn,
		[]string{"the worker w does not report itself", "a live worker reclaims it within one more lease (1s). Alive: 1 worker"}},
	{"crashed before", func(t *testing.T, q opstest.Backends) {
		opstest.Report(t, q, opstest.Idle)
		time.Sleep(50 * time.Millisecond)
		if jobs, err := q.Reclaim(t.Context(), 10); err != nil || len(jobs) != 1 {
			t.Fatalf("reclaimed %d, error %v", len(jobs), err)
		}
		opstest.Claim(t, q, "", time.Millisecond)
	}, ops.Warn, []string{"within three more leases (3s), because it has crashed before"}},
}

// TestExpiredLease: of an expired lease explain tells what is known of its worker, and who reclaims
// the job.
func TestExpiredLease(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		for _, c := range expiredCases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				id := opstest.Enqueue(t, q, queue.Job{})
				opstest.Claim(t, q, "", time.Millisecond)
				c.make(t, q)
				time.Sleep(50 * time.Millisecond)
				wantExpired(t, opstest.Explain(t, q, explain.Question{ID: id}), c.level, c.says...)
			})
		}
	}
}

func wantExpired(t *testing.T, a explain.Answer, level ops.Level, says ...string) {
	t.Helper()
	opstest.WantReason(t, a, "lease-expired")
	r := a.Reasons[0]
	text := strings.Join(append(r.Evidence, r.Verdict, r.Remedy), "\n")
	if r.Level != level {
		t.Errorf("level %s, want %s", r.Level, level)
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			t.Errorf("got %s\nwant %q", text, want)
		}
	}
}

// TestExpiredLongAgo: a lease that live workers should have reclaimed is their fault.
func TestExpiredLongAgo(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, opstest.Idle)
	opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{queue.DefaultQueue}, Host: "h", PID: 7})
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Claim(t, q, "", time.Minute)
	opstest.Exec(t, db, `UPDATE errand.jobs SET locked_at = now() - interval '5 minutes', locked_until = now() - interval '4 minutes 30 seconds'`)
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '20 seconds' WHERE worker = 'w'`)
	wantExpired(t, opstest.Explain(t, q, explain.Question{ID: id}), ops.Fail,
		"worker w (process 7 on host h) last reported itself 2", "live workers should have reclaimed it", "worker idle: 0 of 1 busy")
}

// TestKilledSince: a worker whose last report is older than the extension that it has missed may
// have been killed since. It is not called alive.
func TestKilledSince(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{queue.DefaultQueue}, Host: "h", PID: 7})
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Claim(t, q, "", 4*time.Second)
	opstest.Exec(t, db, `UPDATE errand.jobs SET locked_at = now() - interval '9 seconds', locked_until = now() - interval '5 seconds'`)
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '7 seconds'`)
	a := opstest.Explain(t, q, explain.Question{ID: id})
	wantExpired(t, a, ops.Fail, "worker w (process 7 on host h) last reported itself 7", "before it had to extend the lease",
		"look whether process 7 on host h still runs. No other worker is alive to reclaim the job: start one")
	if text := a.Reasons[0].Verdict; strings.Contains(text, "although") {
		t.Errorf("got %s", text)
	}
	opstest.Report(t, q, opstest.Idle)
	wantExpired(t, opstest.Explain(t, q, explain.Question{ID: id}), ops.Fail, "Alive: 1 worker. Look whether process 7 on host h still runs")
	opstest.Exec(t, db, `UPDATE errand.jobs SET locked_at = now() - interval '5 seconds', locked_until = now() + interval '1 second'`)
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 second' WHERE worker = 'w'`)
	a = opstest.Explain(t, q, explain.Question{ID: id})
	opstest.WantReason(t, a, "holder-silent")
	if text := a.Reasons[0].Verdict; strings.Contains(text, "although") {
		t.Errorf("before the end of the lease: got %s", text)
	}
}

// TestExpiredAndLocked: a job that a transaction has locked can neither be extended nor reclaimed:
// that transaction is the reason, and not the worker.
func TestExpiredAndLocked(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db, q := opstest.Fresh(t)
		opstest.Report(t, q, opstest.Idle)
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Claim(t, q, "", time.Millisecond)
		opstest.Exec(t, opstest.Begin(t, db), `SELECT FROM errand.jobs FOR UPDATE`)
		time.Sleep(1100 * time.Millisecond)
		a := opstest.Explain(t, q, explain.Question{ID: id})
		opstest.WantReason(t, a, "row-locked")
		if v := a.Reasons[0].Verdict; !strings.HasSuffix(v, "its worker cannot extend its lease, which has expired, and no worker reclaims it.") {
			t.Errorf("verdict %s", v)
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, q := opstest.FreshFile(t)
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Claim(t, q, "", time.Millisecond)
		time.Sleep(50 * time.Millisecond) // the lease ends
		opstest.Begin(t, db)              // has the write lock
		opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "write-locked")
	})
}

// TestMissedHeartbeat: a worker that has not extended its lease when it should have does not just
// run the job, whether it has ever reported itself or not.
func TestMissedHeartbeat(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Claim(t, q, "", 8*time.Second)
			opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "running")
			time.Sleep(4100 * time.Millisecond)
			a := opstest.Explain(t, q, explain.Question{ID: id})
			opstest.WantReason(t, a, "holder-silent")
			if r := a.Reasons[0]; !strings.Contains(r.Verdict, "has not extended its lease for ") || !strings.HasSuffix(r.Remedy, "no other one is alive: start one") {
				t.Errorf("got %+v", r)
			}
			opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"other"}})
			a = opstest.Explain(t, q, explain.Question{ID: id})
			opstest.WantReason(t, a, "holder-silent")
			if r := a.Reasons[0]; !strings.Contains(r.Verdict, "although its worker reports itself") || !strings.Contains(r.Remedy, `"extend" in the log of w`) {
				t.Errorf("its worker reports itself: got %+v", r)
			}
		})
	}
}

// TestSettleFirst: a handler that has settled its job first keeps the job's row locked, so that its
// lease is not extended. Its worker is not called dead, and the handler is not to be killed.
func TestSettleFirst(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := opstest.Fresh(t)
	tx := middleware.Tx(db, q, middleware.TxOptions{SettleFirst: true})
	opstest.Run(t, engine.Worker{Backend: q, Handler: tx(opstest.Blocks), Name: "healthy", Concurrency: 1, Prefetch: -1, Lease: 4 * time.Second})
	id := opstest.Enqueue(t, q, queue.Job{})
	for _, says := range []string{"which ends in ", "which has expired"} {
		opstest.Eventually(t, "the lease "+says, func() bool {
			r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]
			return r.ID == "row-locked" && strings.Contains(r.Verdict, says)
		})
		r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]
		if !strings.Contains(strings.Join(r.Evidence, "\n"), "SettleFirst") || !strings.HasPrefix(r.Remedy, "if it is the handler's own transaction, wait") {
			t.Errorf("got %+v", r)
		}
	}
}
