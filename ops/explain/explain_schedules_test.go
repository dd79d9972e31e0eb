package explain_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// fired sets an hourly schedule of the kind report, and completes the job of its first tick.
func fired(t *testing.T, db *sql.DB, q *postgres.Backend) {
	t.Helper()
	opstest.SetSchedule(t, db, q, queue.Job{})
	opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Done})
}

// scheduleCases are schedules that have not enqueued a job. The questions are by kind, queue and
// key.
var scheduleCases = []struct {
	name   string
	make   func(t *testing.T, db *sql.DB, q *postgres.Backend)
	reason string
	level  ops.Level
	says   []string // in the verdict, the evidence or the remedy
}{
	{"paused", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
		fired(t, db, q)
		if _, err := q.Pause(t.Context(), nil, queue.Target{Schedule: "hourly"}, true); err != nil {
			t.Fatal(err)
		}
		audit(t, q, queue.AuditEntry{Action: "schedules.pause", Count: 1, Selection: "schedule=hourly", Reason: "month's end"})
	}, "schedule-paused", ops.Warn, []string{"The schedule hourly", "month's end", "its last tick was ", "errand schedules resume hourly"}},
	{"ticks later", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
		fired(t, db, q)
	}, "schedule-later", ops.OK, []string{" ticks in ", "its last job, 1, is completed"}},
	{"no worker", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
		fired(t, db, q)
		opstest.Exec(t, db, `UPDATE errand.schedules SET next_at = now() - interval '2 minutes'`)
	}, "schedule-late", ops.Warn, []string{"had a tick 2m", "no worker is alive", "start workers"}},
	{"workers that do not fire", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
		fired(t, db, q)
		opstest.Report(t, q, opstest.Idle)
		opstest.Exec(t, db, `UPDATE errand.schedules SET next_at = now() - interval '20 minutes'`)
	}, "schedule-late", ops.Fail, []string{"the log of a worker"}},
	{"a job that is held", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
		fired(t, db, q)
		opstest.Tick(t, db, 1)
		opstest.Exec(t, db, `UPDATE errand.jobs SET status = 'held' WHERE status = 'pending'`)
	}, "schedule-skips", ops.Fail, []string{"Before job 2 has ended, its ticks enqueue nothing", "errand explain 2"}},
}

// TestExplainSchedules: asked by kind, queue or key for a job that there is not, explain tells what
// the schedule does that enqueues it.
func TestExplainSchedules(t *testing.T) {
	t.Parallel()
	for _, c := range scheduleCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, q := opstest.Fresh(t)
			c.make(t, db, q)
			other := queue.Schedule{Name: "other", Spec: "@daily", Job: &queue.Job{Kind: "other", Queue: "other"}}
			if err := q.SetSchedules(t.Context(), nil, other); err != nil {
				t.Fatal(err)
			}
			for then, question := range map[string]explain.Question{"nothing-waits": {Kind: "report"}, " nothing-waits": {Queue: queue.DefaultQueue}, "completed": {Key: "cron:hourly"}} {
				if c.reason == "schedule-skips" && question.Key != "" {
					continue // a live job has the key
				}
				a := opstest.Explain(t, q, question)
				if got := opstest.ReasonIDs(a); got != c.reason+" "+strings.TrimSpace(then) || a.Level() != c.level {
					t.Errorf("%+v: got %s, %s, want %s, %s", question, got, a.Level(), c.reason, c.level)
				}
				r := a.Reasons[0]
				text := strings.Join(append(r.Evidence, r.Verdict, r.Remedy), "\n")
				for _, says := range c.says {
					if !strings.Contains(text, says) {
						t.Errorf("got %s, want %q", text, says)
					}
				}
			}
		})
	}
}

// TestExplainSchedulesBySoonest: of several schedules the next one to tick comes first, and a late
// one before one that somebody has paused.
func TestExplainSchedulesBySoonest(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	report := &queue.Job{Kind: "report"}
	for name, spec := range map[string]string{"a": "@yearly", "b": "@yearly", "c": "@every 20s", "late": "@yearly", "m": "@every 1h"} {
		if err := q.SetSchedules(t.Context(), nil, queue.Schedule{Name: name, Spec: spec, Job: report}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Pause(t.Context(), nil, queue.Target{Schedule: "a"}, true); err != nil {
		t.Fatal(err)
	}
	opstest.Exec(t, db, `UPDATE errand.schedules SET next_at = now() - interval '1 minute' WHERE name = 'late'`)
	var order []string
	for _, r := range opstest.Explain(t, q, explain.Question{Kind: "report"}).Reasons {
		if name, ok := strings.CutPrefix(r.Verdict, "The schedule "); ok {
			order = append(order, name[:strings.Index(name, ",")])
		}
	}
	if got := strings.Join(order, " "); got != "late a c m b" {
		t.Errorf("got the schedules %s, want late a c m b", got)
	}
}

// TestNeverTicked: a queue or a key that only a schedule has ever named is not misspelt, on any
// backend.
func TestNeverTicked(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			scheduler, ok := driver.As[driver.Scheduler](q)
			if !ok {
				t.Skip("the backend keeps no schedules")
			}
			s := queue.Schedule{Name: "daily", Spec: "@daily", Job: &queue.Job{Kind: "report", Queue: "reports"}}
			if err := scheduler.SetSchedules(t.Context(), nil, s); err != nil {
				t.Fatal(err)
			}
			for then, question := range map[string]explain.Question{"empty-queue": {Queue: "reports"}, "no-such-key": {Key: "cron:daily"}} {
				if a := opstest.Explain(t, q, question); opstest.ReasonIDs(a) != "schedule-later "+then || a.Level() != ops.OK {
					t.Errorf("%+v: got %s, %s", question, opstest.ReasonIDs(a), a.Level())
				}
			}
			if a := opstest.Explain(t, q, explain.Question{Queue: "report"}); opstest.ReasonIDs(a) != "empty-queue" || a.Level() != ops.Warn {
				t.Errorf("a queue that no schedule has: got %s, %s", opstest.ReasonIDs(a), a.Level())
			}
		})
	}
}

// TestLockedSchedule: workers pass over a schedule whose row is locked, and log nothing. Doctor and
// Explain name the session.
func TestLockedSchedule(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	fired(t, db, q)
	opstest.Report(t, q, opstest.Idle)
	opstest.Exec(t, db, `UPDATE errand.schedules SET next_at = now() - interval '2 minutes'`)
	holder := opstest.Begin(t, db)
	opstest.Exec(t, holder, `SELECT FROM errand.schedules FOR UPDATE`)
	time.Sleep(1100 * time.Millisecond)
	pid := opstest.PidOf(t, holder)
	session, end := fmt.Sprintf("session %d", pid), fmt.Sprintf("pg_terminate_backend(%d)", pid)
	if c := opstest.Examine(t, q, doctor.Options{})["schedules"]; c.Level != ops.Warn || !strings.Contains(c.Value, session) || !strings.Contains(c.Advice, end) {
		t.Errorf("doctor: got %+v, want %s", c, session)
	}
	r := opstest.Explain(t, q, explain.Question{Kind: "report"}).Reasons[0]
	if r.ID != "schedule-late" || !strings.HasPrefix(r.Evidence[0], session) || !strings.Contains(r.Remedy, end) {
		t.Errorf("explain: got %+v, want %s", r, session)
	}
}
