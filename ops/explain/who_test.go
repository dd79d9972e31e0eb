package explain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// whoCases are actions of people and programs.
var whoCases = []struct {
	name string
	make func(t *testing.T, q opstest.Backends) (id int64)
	want string // the first reason
	says string // is in its evidence
}{
	{"one cancelled", func(t *testing.T, q opstest.Backends) int64 {
		id := opstest.Enqueue(t, q, queue.Job{})
		cancel(t, q, id)
		audit(t, q, queue.AuditEntry{Action: "jobs.cancel", JobID: id, Count: 1, Reason: "a typo"})
		return id
	}, "cancelled", "jobs.cancel: ann, at "},
	{"many cancelled", func(t *testing.T, q opstest.Backends) int64 {
		id := opstest.Enqueue(t, q, queue.Job{})
		cancel(t, q, id)
		audit(t, q, queue.AuditEntry{Action: "jobs.cancel", Count: 7, Selection: "kind=test"})
		return id
	}, "cancelled", "for 7 jobs: kind=test"},
	{"cancelled by a program", func(t *testing.T, q opstest.Backends) int64 {
		id := opstest.Enqueue(t, q, queue.Job{})
		cancel(t, q, id)
		audit(t, q, queue.AuditEntry{Action: "jobs.cancel", JobID: id + 1, Count: 1})
		return id
	}, "cancelled", "the audit log does not say who"},
	{"cancelled while it runs", func(t *testing.T, q opstest.Backends) int64 {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Claim(t, q, "", time.Minute)
		cancel(t, q, id)
		audit(t, q, queue.AuditEntry{Action: "jobs.cancel", JobID: id, Count: 1})
		return id
	}, "cancel-asked", "jobs.cancel: ann, at "},
	{"a queue paused by the command line", func(t *testing.T, q opstest.Backends) int64 {
		pause(t, q, "queue=q", true)
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "queue-paused", "queues.pause: ann, at "},
	{"a queue paused by the dashboard", func(t *testing.T, q opstest.Backends) int64 {
		pause(t, q, "queues/q", true)
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "queue-paused", "queues.pause: ann, at "},
	{"a group paused", func(t *testing.T, q opstest.Backends) int64 {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Group: "g", InQueue: "q"}, true); err != nil {
			t.Fatal(err)
		}
		audit(t, q, queue.AuditEntry{Action: "queues.pause", Count: 1, Selection: "queue=q group=g", Reason: "they have not paid"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
	}, "group-paused", "because: they have not paid"},
	{"a kind paused", func(t *testing.T, q opstest.Backends) int64 {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "test"}, true); err != nil {
			t.Fatal(err)
		}
		audit(t, q, queue.AuditEntry{Action: "kinds.pause", Count: 1, Selection: "kind=test"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "kind-paused", "kinds.pause: ann, at "},
	{"paused again by a program", func(t *testing.T, q opstest.Backends) int64 {
		pause(t, q, "queue=q", true)
		pause(t, q, "queue=q", false)
		if _, err := q.Pause(t.Context(), nil, queue.Target{Queue: "q"}, true); err != nil {
			t.Fatal(err)
		}
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "queue-paused", ""},
	{"put off by a person", func(t *testing.T, q opstest.Backends) int64 {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Release, Delay: time.Hour})
		audit(t, q, queue.AuditEntry{Action: "jobs.reschedule", JobID: id, Count: 1})
		return id
	}, "put-off", "the audit log says who has changed it: jobs.reschedule: ann, at "},
	{"put off by its handler, after a person", func(t *testing.T, q opstest.Backends) int64 {
		id := opstest.Enqueue(t, q, queue.Job{})
		audit(t, q, queue.AuditEntry{Action: "jobs.reschedule", JobID: id, Count: 1})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Release, Delay: time.Hour})
		return id
	}, "put-off", "its handler has snoozed it"},
	{"given back", func(t *testing.T, q opstest.Backends) int64 {
		id := opstest.Enqueue(t, q, queue.Job{ScheduledAt: opstest.Ago()})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Release})
		return id
	}, "given-back", "a worker has claimed it and given it back"},
}

// succeed is a handler that does nothing.
func succeed(context.Context, *queue.Job) error { return nil }

func audit(t *testing.T, q driver.Auditor, e queue.AuditEntry) {
	t.Helper()
	e.Actor = "ann"
	if err := q.Audit(t.Context(), nil, e); err != nil {
		t.Fatal(err)
	}
}

// pause pauses the queue q or ends that, with an entry of that selection.
func pause(t *testing.T, q opstest.Backends, selection string, paused bool) {
	t.Helper()
	if _, err := q.Pause(t.Context(), nil, queue.Target{Queue: "q"}, paused); err != nil {
		t.Fatal(err)
	}
	action := "queues.resume"
	if paused {
		action = "queues.pause"
	}
	audit(t, q, queue.AuditEntry{Action: action, Count: 1, Selection: selection})
}

// TestWho: explain says who has done it, if the audit log knows, and never names the wrong person.
func TestWho(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		for _, c := range whoCases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				opstest.Report(t, q, opstest.Idle)
				a := opstest.Explain(t, q, explain.Question{ID: c.make(t, q)})
				opstest.WantReason(t, a, c.want)
				if got := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.Contains(got, c.says) || c.says == "" && strings.Contains(got, "ann") {
					t.Errorf("got %q, want %q", got, c.says)
				}
			})
		}
	}
}

// TestBulkDeletion: of a job that is not there explain names the last deletion of many jobs.
func TestBulkDeletion(t *testing.T) {
	t.Parallel()
	_, q := opstest.Fresh(t)
	id := opstest.Enqueue(t, q, queue.Job{})
	if n, err := q.Delete(t.Context(), nil, queue.Selection{Kind: "test"}); err != nil || n != 1 {
		t.Fatalf("deleted %d, error %v", n, err)
	}
	audit(t, q, queue.AuditEntry{Action: "jobs.delete", Count: 1, Selection: "kind=test"})
	a := opstest.Explain(t, q, explain.Question{ID: id})
	opstest.WantReason(t, a, "gone")
	if got := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.Contains(got, "jobs.delete: ann, at ") {
		t.Errorf("got %q, want the deletion", got)
	}
}

// TestStoppedWorkers: after an orderly stop of the last worker explain says that, and when a worker
// last ran a job.
func TestStoppedWorkers(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			done := opstest.Enqueue(t, q, queue.Job{})
			stop := opstest.Run(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(succeed)})
			opstest.Eventually(t, "the job is done", func() bool {
				r, _, err := q.Job(t.Context(), done)
				return err == nil && r.Status == queue.StatusCompleted
			})
			stop()
			opstest.Eventually(t, "the worker has stopped", func() bool { return len(opstest.Workers(t, q)) == 0 })
			a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})})
			opstest.WantReason(t, a, "no-worker")
			got := strings.Join(a.Reasons[0].Evidence, "\n")
			for _, want := range []string{"all workers have stopped in order", "a worker last ended a job in the minute of "} {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			a = opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "other", Delay: time.Hour})})
			opstest.WantReason(t, a, "delayed")
			if got := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.Contains(got, "no worker is alive now") {
				t.Errorf("got %q, want that no worker is alive", got)
			}
		})
	}
}

// TestHidden: if row security hides a job, explain says so instead of that it is gone.
func TestHidden(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	id := opstest.Enqueue(t, q, queue.Job{Key: "a key"})
	role := opstest.Roles(t, db) + "worker"
	opstest.Exec(t, db, `ALTER TABLE errand.jobs ENABLE ROW LEVEL SECURITY`)
	db.SetMaxOpenConns(1)
	opstest.Exec(t, db, "SET ROLE "+role)
	t.Cleanup(func() { _, _ = db.Exec("RESET ROLE") })
	for _, c := range []struct {
		explain.Question
		want string
	}{{explain.Question{ID: id}, "hidden no-such-job"}, {explain.Question{Key: "a key"}, "hidden no-such-key"},
		{explain.Question{Queue: queue.DefaultQueue}, "hidden"}, {explain.Question{Kind: "test"}, "hidden"}} {
		if a := opstest.Explain(t, q, c.Question); opstest.ReasonIDs(a) != c.want {
			t.Errorf("got %s, want %s", opstest.ReasonIDs(a), c.want)
		}
	}
}

// TestHiddenFromWorkers: if row security may hide a due job from workers, explain says so to a role
// that sees it.
func TestHiddenFromWorkers(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{ScheduledAt: opstest.Ago()})
	opstest.Exec(t, db, `ALTER TABLE errand.jobs ENABLE ROW LEVEL SECURITY`)
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "unexplained") // no worker's role is subject to it
	role := opstest.Roles(t, db) + "worker"
	a := opstest.Explain(t, q, explain.Question{ID: id})
	opstest.WantReason(t, a, "row-security")
	if text := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.HasSuffix(text, "workers of these roles: "+role) {
		t.Errorf("got %q", text)
	}
	opstest.Exec(t, db, `ALTER TABLE errand.jobs DISABLE ROW LEVEL SECURITY`)
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "unexplained")
}

// TestForeignTrigger: explain names a trigger that keeps a due job from being claimed. A disabled
// trigger keeps none.
func TestForeignTrigger(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{ScheduledAt: opstest.Ago()})
	opstest.Exec(t, db, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
		CREATE TRIGGER "Mine" BEFORE UPDATE ON errand.jobs FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"}); len(jobs) > 0 {
		t.Fatalf("claimed %d, error %v", len(jobs), err)
	}
	a := opstest.Explain(t, q, explain.Question{ID: id})
	opstest.WantReason(t, a, "foreign-trigger")
	if r := a.Reasons[0]; !strings.Contains(r.Verdict, `"Mine"`) || strings.Contains(r.Remedy, "bug") {
		t.Errorf("got %+v", r)
	}
	behind := opstest.Enqueue(t, q, queue.Job{ScheduledAt: opstest.Ago()})
	if a := opstest.Explain(t, q, explain.Question{ID: behind}); opstest.ReasonIDs(a) != "foreign-trigger jobs-ahead" {
		t.Errorf("of a job behind it: got %s", opstest.ReasonIDs(a))
	}
	opstest.Exec(t, db, `ALTER TABLE errand.jobs DISABLE TRIGGER "Mine"`)
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "unexplained")
}

// TestSlowClaims: a worker that has room and does not claim is named, and one that polls seldom is
// not.
func TestSlowClaims(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, c := range []struct {
		want     string
		claimAge time.Duration
		poll     time.Duration
		due      time.Duration
	}{
		{"claims-hang", 2 * time.Minute, time.Second, time.Minute},
		{"unexplained", 20 * time.Second, time.Second, time.Minute},
		{"unexplained", 50 * time.Second, 30 * time.Second, time.Minute},
		{"just-due", 20 * time.Second, 30 * time.Second, 20 * time.Second},
		{"unexplained", 2 * time.Second, 5 * time.Second, 20 * time.Second},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			_, q := opstest.Fresh(t)
			w := driver.WorkerReport{WorkerInfo: opstest.Idle, Age: time.Hour, ClaimAge: c.claimAge}
			w.Poll, w.Concurrency = c.poll, 1
			if err := q.ReportWorkers(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(-c.due)})}), c.want)
		})
	}
}
