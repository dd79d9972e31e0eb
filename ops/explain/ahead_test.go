package explain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// aheadCases are queues in which jobs come before a job by their place. A worker serves first and
// q, and handles the kinds test and slow.
var aheadCases = []struct {
	name string
	make func(t *testing.T, q opstest.Backends) (id int64)
	want string // the reasons
	says string // is in the verdict or the evidence of the first
}{
	{"claimed before", func(t *testing.T, q opstest.Backends) int64 {
		several(t, q, 2, queue.Job{Queue: "q"})
		several(t, q, 1, queue.Job{Queue: "q", Kind: "slow"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "jobs-ahead", "3 due jobs of the queue q come before"},
	{"a kind that nobody handles", func(t *testing.T, q opstest.Backends) int64 {
		several(t, q, 3, queue.Job{Queue: "q", Kind: "unknown"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"some that nobody handles", func(t *testing.T, q opstest.Backends) int64 {
		several(t, q, 3, queue.Job{Queue: "q", Kind: "unknown"})
		several(t, q, 1, queue.Job{Queue: "q"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "jobs-ahead", "not counted: 3 jobs of kinds that these workers do not handle"},
	{"a paused kind", func(t *testing.T, q opstest.Backends) int64 {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "slow"}, true); err != nil {
			t.Fatal(err)
		}
		several(t, q, 3, queue.Job{Queue: "q", Kind: "slow"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"a paused group", func(t *testing.T, q opstest.Backends) int64 {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Group: "g", InQueue: "q"}, true); err != nil {
			t.Fatal(err)
		}
		several(t, q, 3, queue.Job{Queue: "q", Group: "g"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"groups that take turns", func(t *testing.T, q opstest.Backends) int64 {
		opstest.SetRules(t, q, queue.Rule{Queue: "q", PerGroup: 1})
		several(t, q, 3, queue.Job{Queue: "q", Group: "g"})
		several(t, q, 1, queue.Job{Queue: "q", Group: "h"})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "h"})
	}, "jobs-ahead", `1 due job of the group "h" of the queue q comes before`},
	{"ordered jobs", func(t *testing.T, q opstest.Backends) int64 {
		several(t, q, 3, queue.Job{Queue: "q", Group: "g", Ordered: true})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"a queue that starves it", func(t *testing.T, q opstest.Backends) int64 {
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: opstest.Ago()})
		several(t, q, 2, queue.Job{Queue: "first", Kind: "unknown", ScheduledAt: opstest.Ago()})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "starved", "3 due jobs of the queue first, the first has been due for 1m"},
	{"a queue of a kind that nobody handles", func(t *testing.T, q opstest.Backends) int64 {
		several(t, q, 3, queue.Job{Queue: "first", Kind: "unknown", ScheduledAt: opstest.Ago()})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "unexplained", ""},
	{"a paused queue", func(t *testing.T, q opstest.Backends) int64 {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Queue: "first"}, true); err != nil {
			t.Fatal(err)
		}
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: opstest.Ago()})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "unexplained", ""},
	{"a queue at its limit", func(t *testing.T, q opstest.Backends) int64 {
		opstest.SetRules(t, q, queue.Rule{Queue: "first", Running: 1})
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: opstest.Ago()})
		opstest.Claim(t, q, "first", time.Minute)
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "unexplained", ""},
	{"a queue whose groups are full", func(t *testing.T, q opstest.Backends) int64 {
		opstest.SetRules(t, q, queue.Rule{Queue: "first", PerGroup: 1})
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", ScheduledAt: opstest.Ago()})
		opstest.Claim(t, q, "first", time.Minute)
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "unexplained", ""},
	{"a queue whose rate is used up", func(t *testing.T, q opstest.Backends) int64 {
		opstest.SetRules(t, q, queue.Rule{Queue: "first", Rate: queue.Rate{Jobs: 1, Per: time.Hour}})
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: opstest.Ago()})
		opstest.Claim(t, q, "first", time.Minute)
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "unexplained", ""},
	{"a queue whose groups have used up their rate", func(t *testing.T, q opstest.Backends) int64 {
		opstest.SetRules(t, q, queue.Rule{Queue: "first", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}})
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", ScheduledAt: opstest.Ago()})
		opstest.Claim(t, q, "first", time.Minute)
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "unexplained", ""},
	{"a queue whose lines are held", func(t *testing.T, q opstest.Backends) int64 {
		opstest.SetRules(t, q, queue.Rule{Queue: "first", OnDead: queue.HoldDead})
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", Ordered: true, ScheduledAt: opstest.Ago()})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "first", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "unexplained", ""},
	{"a queue whose line goes on", func(t *testing.T, q opstest.Backends) int64 {
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", Ordered: true, ScheduledAt: opstest.Ago()})
		return opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: opstest.Ago()})
	}, "starved", "not counted: 2 jobs that are ordered and wait for their turn"},
}

// several enqueues equal jobs that come before those of priority 0, unless they are ordered.
func several(t *testing.T, q queue.Enqueuer, n int, job queue.Job) {
	t.Helper()
	if !job.Ordered {
		job.Priority = -1
	}
	for range n {
		opstest.Enqueue(t, q, job)
	}
}

// TestAhead: only jobs count that workers would really claim before the job.
func TestAhead(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		for _, c := range aheadCases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				opstest.Report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"first", "q"}, Kinds: []string{"test", "slow"}})
				a := opstest.Explain(t, q, explain.Question{ID: c.make(t, q)})
				text := a.Reasons[0].Verdict + "\n" + strings.Join(a.Reasons[0].Evidence, "\n")
				if opstest.ReasonIDs(a) != c.want || !strings.Contains(text, c.says) {
					t.Errorf("got %s: %s\nwant %s: %q", opstest.ReasonIDs(a), text, c.want, c.says)
				}
			})
		}
	}
}

// TestPace: the time that jobs ahead take is estimated by the queue's last minutes.
func TestPace(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			w := opstest.Idle
			w.Concurrency = 1
			stats := driver.MinuteStats{Queue: "q", Kind: "test", Age: 10 * time.Minute, Stats: queue.Stats{Done: 20}}
			if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, Age: time.Hour, ClaimAge: time.Second, Stats: []driver.MinuteStats{stats}}); err != nil {
				t.Fatal(err)
			}
			several(t, q, 4, queue.Job{Queue: "q"})
			a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})})
			opstest.WantReason(t, a, "jobs-ahead")
			got := strings.Join(a.Reasons[0].Evidence, "\n")
			_, text, _ := strings.Cut(got, "these take about ")
			estimate, err := time.ParseDuration(text)
			if err != nil || !strings.Contains(got, "20 runs of the queue ended in the last ") || (estimate-2*time.Minute).Abs() > 10*time.Second {
				t.Errorf("got %q, error %v, want an estimate of two minutes", got, err)
			}
		})
	}
}

// TestRanking: what a person has to end comes before what ends by itself.
func TestRanking(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	back := func(t *testing.T, q opstest.Backends, job queue.Job) int64 {
		id := opstest.Enqueue(t, q, job)
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "q", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return id
	}
	for _, c := range []struct {
		want string
		make func(t *testing.T, q opstest.Backends) int64
	}{
		{"kind-not-handled back-off", func(t *testing.T, q opstest.Backends) int64 {
			return back(t, q, queue.Job{Queue: "q", Kind: "unknown"})
		}},
		{"kind-not-handled delayed", func(t *testing.T, q opstest.Backends) int64 {
			return opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown", Delay: time.Hour})
		}},
		{"queue-not-served delayed", func(t *testing.T, q opstest.Backends) int64 {
			return opstest.Enqueue(t, q, queue.Job{Queue: "other", Delay: time.Hour})
		}},
		{"queue-paused delayed", func(t *testing.T, q opstest.Backends) int64 {
			if _, err := q.Pause(t.Context(), nil, queue.Target{Queue: "q"}, true); err != nil {
				t.Fatal(err)
			}
			return opstest.Enqueue(t, q, queue.Job{Queue: "q", Delay: time.Hour})
		}},
		{"behind-stuck", func(t *testing.T, q opstest.Backends) int64 { // its own kind is handled
			opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown", Group: "g", Ordered: true})
			return opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g", Ordered: true})
		}},
		{"behind-stuck", func(t *testing.T, q opstest.Backends) int64 {
			if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "slow"}, true); err != nil {
				t.Fatal(err)
			}
			opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: "slow", Group: "g", Ordered: true})
			return opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g", Ordered: true})
		}},
		{"kind-not-handled behind-back-off", func(t *testing.T, q opstest.Backends) int64 {
			back(t, q, queue.Job{Queue: "q", Group: "g", Ordered: true})
			return opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: "unhandled", Group: "g", Ordered: true})
		}},
		{"kind-not-handled group-limit", func(t *testing.T, q opstest.Backends) int64 {
			opstest.SetRules(t, q, queue.Rule{Queue: "q", PerGroup: 1})
			opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
			opstest.Claim(t, q, "q", time.Minute)
			return opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown", Group: "g"})
		}},
		{"kind-not-handled queue-rate", func(t *testing.T, q opstest.Backends) int64 {
			opstest.SetRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1, Per: time.Hour}})
			opstest.Enqueue(t, q, queue.Job{Queue: "q"})
			opstest.Claim(t, q, "q", time.Minute)
			return opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown"})
		}},
	} {
		for name, open := range opstest.EveryBackend {
			t.Run(name+"/"+c.want, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				opstest.Report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"q"}, Kinds: []string{"test", "slow"}})
				if a := opstest.Explain(t, q, explain.Question{ID: c.make(t, q)}); opstest.ReasonIDs(a) != c.want {
					t.Errorf("got %s, want %s", opstest.ReasonIDs(a), c.want)
				}
			})
		}
	}
}
