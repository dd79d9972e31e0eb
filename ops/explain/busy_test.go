package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestBusySinceReport: jobs that a worker has claimed since its last report take its slots.
func TestBusySinceReport(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"q"}, Concurrency: 10})
			for range 10 {
				opstest.Enqueue(t, q, queue.Job{Queue: "q"})
			}
			opstest.Claim(t, q, "q", time.Minute)
			a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
			opstest.WantReason(t, a, "workers-busy")
			text := strings.Join(a.Reasons[0].Evidence, "\n")
			for _, want := range []string{"worker w: 10 of 10 busy", "and 7 more"} {
				if !strings.Contains(text, want) {
					t.Errorf("evidence %q, want %q", text, want)
				}
			}
			several(t, q, 100, queue.Job{Queue: "q"})
			if a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})}); opstest.ReasonIDs(a) != "jobs-ahead workers-busy" {
				t.Errorf("with short jobs and many before it: got %s", opstest.ReasonIDs(a))
			}
		})
	}
}

// TestQueueSlotsBusy: a job waits for a slot of its queue although its worker has others free.
func TestQueueSlotsBusy(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			slots := []driver.QueueSlots{{Queue: "q", Slots: 2, Busy: 1}}
			opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"q", "other"}, Concurrency: 10, Busy: 1, Slots: slots})
			opstest.Enqueue(t, q, queue.Job{Queue: "q"})
			opstest.Enqueue(t, q, queue.Job{Queue: "q"})
			opstest.Claim(t, q, "q", time.Minute)
			a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
			opstest.WantReason(t, a, "workers-busy")
			first := a.Reasons[0]
			if !strings.Contains(first.Verdict, "All slots that workers have for the queue q are busy") || !strings.Contains(first.Remedy, "Slots") ||
				!strings.Contains(strings.Join(first.Evidence, "\n"), "worker w: 2 of 10 busy, of the queue q 2 of 2") {
				t.Errorf("got %+v", first)
			}
			a = opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "other"})})
			if a.Reasons[0].ID == "workers-busy" {
				t.Errorf("of the other queue: got %+v", a.Reasons[0])
			}
		})
	}
}

// TestHungHandler: explain names the process of a handler that ignores that it was cancelled, and
// what to ask about a job that keeps a worker busy for long.
func TestHungHandler(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{queue.DefaultQueue}, Host: "h", PID: 7})
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Claim(t, q, "", time.Minute)
	waits := opstest.Enqueue(t, q, queue.Job{})
	busy := func(want string) {
		t.Helper()
		a := opstest.Explain(t, q, explain.Question{ID: waits})
		opstest.WantReason(t, a, "workers-busy")
		if text := strings.Join(a.Reasons[0].Evidence, "\n") + a.Reasons[0].Remedy; !strings.HasSuffix(text, want) {
			t.Errorf("got %s\nwant %s", text, want)
		}
	}
	busy("or a queue of their own")
	opstest.Exec(t, db, `UPDATE errand.jobs SET started_at = now() - interval '2 hours' WHERE id = $1`, id)
	busy(fmt.Sprintf("; or see errand explain %d, and, if it hangs, errand jobs cancel %d", id, id))
	cancel(t, q, id)
	if r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]; r.ID != "cancel-asked" || !strings.HasPrefix(r.Remedy, "wait: ") {
		t.Errorf("just cancelled: got %+v", r)
	}
	opstest.Exec(t, db, `UPDATE errand.jobs SET cancel_at = now() - interval '1 hour' WHERE id = $1`, id)
	if r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]; r.ID != "cancel-asked" || !strings.Contains(r.Remedy, "end process 7 on host h (kill 7). Then the job is cancelled") {
		t.Errorf("it ignores that: got %+v", r)
	}
	busy(fmt.Sprintf("; or see errand explain %d", id))
	if r := opstest.Explain(t, q, explain.Question{ID: waits}).Reasons[0]; !strings.Contains(strings.Join(r.Evidence, "\n"), "has been running for 2h, and was cancelled 1h ago") {
		t.Errorf("got %q", r.Evidence)
	}
}

// TestPaceWindow: the pace is that of the time in which the queue was worked off.
func TestPaceWindow(t *testing.T) {
	t.Parallel()
	stats := func(age time.Duration, done int64) driver.MinuteStats {
		return driver.MinuteStats{Queue: "q", Kind: "test", Age: age, Stats: queue.Stats{Done: done}}
	}
	for _, c := range []struct {
		name    string
		age     time.Duration // of the worker
		stats   []driver.MinuteStats
		longest time.Duration
	}{
		{"begun just now", 20 * time.Second, []driver.MinuteStats{stats(10*time.Second, 500)}, 21 * time.Second},
		{"idle before", time.Hour, []driver.MinuteStats{stats(12*time.Minute, 3), stats(time.Minute, 500)}, 2*time.Minute + time.Second},
	} {
		for name, open := range opstest.EveryBackend {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				w := opstest.Idle
				w.Concurrency = 1
				if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, Age: c.age, ClaimAge: time.Second, Stats: c.stats}); err != nil {
					t.Fatal(err)
				}
				several(t, q, 4, queue.Job{Queue: "q"})
				a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
				opstest.WantReason(t, a, "jobs-ahead")
				_, text, _ := strings.Cut(strings.Join(a.Reasons[0].Evidence, "\n"), "500 runs of the queue ended in the last ")
				text, _, _ = strings.Cut(text, ":")
				if took, err := time.ParseDuration(text); err != nil || took > c.longest {
					t.Errorf("the pace of the last %v, error %v, want %v at most", took, err, c.longest)
				}
			})
		}
	}
}

// TestFullPace: the time in which the workers had nothing to do does not make the pace slower.
func TestFullPace(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			var quiet []driver.MinuteStats // a job of five seconds in each minute
			for i := range 14 {
				quiet = append(quiet, driver.MinuteStats{Queue: "q", Kind: "test", Age: time.Duration(i) * time.Minute, Stats: queue.Stats{Done: 1, Ran: 5 * time.Second}})
			}
			w := opstest.Idle
			w.Concurrency = 1
			if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, Age: time.Hour, ClaimAge: time.Second, Stats: quiet}); err != nil {
				t.Fatal(err)
			}
			several(t, q, 15, queue.Job{Queue: "q"})
			a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
			opstest.WantReason(t, a, "jobs-ahead")
			_, text, _ := strings.Cut(strings.Join(a.Reasons[0].Evidence, "\n"), "at their full pace these take about ")
			if took, err := time.ParseDuration(text); err != nil || took < 70*time.Second || took > 80*time.Second {
				t.Errorf("got %q, error %v, want 15 times 5 s", a.Reasons[0].Evidence, err)
			}
		})
	}
}

// TestPaceOfLongRuns: runs that have ended do not tell when a job starts while all slots are busy
// with longer ones.
func TestPaceOfLongRuns(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	w := opstest.Idle
	w.Name, w.Concurrency = "w", 8
	short := driver.MinuteStats{Queue: "q", Kind: "test", Age: 5 * time.Minute, Stats: queue.Stats{Done: 100, Ran: 10 * time.Second}}
	if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, Age: time.Hour, ClaimAge: time.Second, Stats: []driver.MinuteStats{short}}); err != nil {
		t.Fatal(err)
	}
	several(t, q, 8, queue.Job{Queue: "q"})
	opstest.Claim(t, q, "q", time.Minute)
	updated := time.Now()
	opstest.Exec(t, db, `UPDATE errand.jobs SET started_at = now() - interval '30 seconds', locked_at = now() - interval '30 seconds'`)
	opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
	if opstest.ReasonIDs(a) != "workers-busy jobs-ahead" {
		t.Fatalf("got %s", opstest.ReasonIDs(a))
	}
	text := strings.Join(a.Reasons[1].Evidence, "\n")
	_, after, _ := strings.Cut(text, "now, up to ")
	longest, _, isUnknown := strings.Cut(after, " so far: how long these take is not known")
	most := 30*time.Second + time.Since(updated).Round(time.Second)
	if took, err := time.ParseDuration(longest); err != nil || !isUnknown || took < 30*time.Second || took > most || strings.Contains(text, "pace") {
		t.Errorf("got %q, error %v, want 30 s to %v", text, err, most)
	}
}

// TestRateOfFew: if too few runs have ended to tell a pace, the rate of the queue is a bound.
func TestRateOfFew(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			w := opstest.Idle
			w.Concurrency = 1
			one := driver.MinuteStats{Queue: "q", Kind: "test", Age: time.Minute, Stats: queue.Stats{Done: 1, Ran: time.Second}}
			if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, Age: time.Hour, ClaimAge: time.Second, Stats: []driver.MinuteStats{one}}); err != nil {
				t.Fatal(err)
			}
			opstest.SetRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 10, Per: time.Hour}})
			several(t, q, 40, queue.Job{Queue: "q"})
			a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
			if text := fmt.Sprint(a.Reasons); !strings.Contains(text, "too few to tell how long these take; at least 4h, by its rate") {
				t.Errorf("got %s", text)
			}
		})
	}
}

// TestRateOfSecond: the second job in line gets its token after the first one.
func TestRateOfSecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule   queue.Rule
		group  string
		reason string
	}{
		{queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 2, Per: time.Hour}}, "", "queue-rate"},
		{queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 2, Per: time.Hour}}, "g", "group-rate"},
	} {
		for name, open := range opstest.EveryBackend {
			t.Run(name+"/"+c.reason, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				opstest.Report(t, q, opstest.Idle)
				opstest.SetRules(t, q, c.rule)
				job := queue.Job{Queue: "q", Group: c.group}
				opstest.Enqueue(t, q, job)
				opstest.Claim(t, q, "q", time.Minute)
				for _, want := range []string{"may start in 30m.", "may start in 1h."} {
					if r := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, job)}).Reasons[0]; r.ID != c.reason || !strings.Contains(r.Verdict, want) {
						t.Errorf("got %s: %s, want %s", r.ID, r.Verdict, want)
					}
				}
			})
		}
	}
}
