package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// aheadCases are queues in which jobs come before a job by their place. A worker serves first and
// q, and handles the kinds test and slow.
var aheadCases = []struct {
	name string
	make func(t *testing.T, q backends) (id int64)
	want string // the reasons
	says string // is in the verdict or the evidence of the first
}{
	{"claimed before", func(t *testing.T, q backends) int64 {
		several(t, q, 2, queue.Job{Queue: "q"})
		several(t, q, 1, queue.Job{Queue: "q", Kind: "slow"})
		return enqueue(t, q, queue.Job{Queue: "q"})
	}, "jobs-ahead", "3 due jobs of the queue q come before"},
	{"a kind that nobody handles", func(t *testing.T, q backends) int64 {
		several(t, q, 3, queue.Job{Queue: "q", Kind: "unknown"})
		return enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"some that nobody handles", func(t *testing.T, q backends) int64 {
		several(t, q, 3, queue.Job{Queue: "q", Kind: "unknown"})
		several(t, q, 1, queue.Job{Queue: "q"})
		return enqueue(t, q, queue.Job{Queue: "q"})
	}, "jobs-ahead", "not counted: 3 jobs of kinds that these workers do not handle"},
	{"a paused kind", func(t *testing.T, q backends) int64 {
		if err := q.PauseKinds(t.Context(), nil, "slow"); err != nil {
			t.Fatal(err)
		}
		several(t, q, 3, queue.Job{Queue: "q", Kind: "slow"})
		return enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"a paused group", func(t *testing.T, q backends) int64 {
		if err := q.PauseGroup(t.Context(), nil, "q", "g", true); err != nil {
			t.Fatal(err)
		}
		several(t, q, 3, queue.Job{Queue: "q", Group: "g"})
		return enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"groups that take turns", func(t *testing.T, q backends) int64 {
		setRules(t, q, queue.Rule{Queue: "q", PerGroup: 1})
		several(t, q, 3, queue.Job{Queue: "q", Group: "g"})
		several(t, q, 1, queue.Job{Queue: "q", Group: "h"})
		return enqueue(t, q, queue.Job{Queue: "q", Group: "h"})
	}, "jobs-ahead", `1 due job of the group "h" of the queue q comes before`},
	{"ordered jobs", func(t *testing.T, q backends) int64 {
		several(t, q, 3, queue.Job{Queue: "q", Group: "g", Ordered: true})
		return enqueue(t, q, queue.Job{Queue: "q"})
	}, "just-due", ""},
	{"a queue that starves it", func(t *testing.T, q backends) int64 {
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: ago()})
		several(t, q, 2, queue.Job{Queue: "first", Kind: "unknown", ScheduledAt: ago()})
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "starved", "3 due jobs of the queue first, the first has been due for 1m"},
	{"a queue of a kind that nobody handles", func(t *testing.T, q backends) int64 {
		several(t, q, 3, queue.Job{Queue: "first", Kind: "unknown", ScheduledAt: ago()})
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "unexplained", ""},
	{"a paused queue", func(t *testing.T, q backends) int64 {
		if err := q.PauseQueue(t.Context(), nil, "first", true); err != nil {
			t.Fatal(err)
		}
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: ago()})
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "unexplained", ""},
	{"a queue at its limit", func(t *testing.T, q backends) int64 {
		setRules(t, q, queue.Rule{Queue: "first", Running: 1})
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: ago()})
		claim(t, q, "first", time.Minute)
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "unexplained", ""},
	{"a queue whose groups are full", func(t *testing.T, q backends) int64 {
		setRules(t, q, queue.Rule{Queue: "first", PerGroup: 1})
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", ScheduledAt: ago()})
		claim(t, q, "first", time.Minute)
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "unexplained", ""},
	{"a queue whose rate is used up", func(t *testing.T, q backends) int64 {
		setRules(t, q, queue.Rule{Queue: "first", Rate: queue.Rate{Jobs: 1, Per: time.Hour}})
		several(t, q, 3, queue.Job{Queue: "first", ScheduledAt: ago()})
		claim(t, q, "first", time.Minute)
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "unexplained", ""},
	{"a queue whose groups have used up their rate", func(t *testing.T, q backends) int64 {
		setRules(t, q, queue.Rule{Queue: "first", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}})
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", ScheduledAt: ago()})
		claim(t, q, "first", time.Minute)
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "unexplained", ""},
	{"a queue whose lines are held", func(t *testing.T, q backends) int64 {
		setRules(t, q, queue.Rule{Queue: "first", OnDead: queue.HoldDead})
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", Ordered: true, ScheduledAt: ago()})
		settle(t, q, queue.Outcome{Job: claim(t, q, "first", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "unexplained", ""},
	{"a queue whose line goes on", func(t *testing.T, q backends) int64 {
		several(t, q, 3, queue.Job{Queue: "first", Group: "g", Ordered: true, ScheduledAt: ago()})
		return enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago()})
	}, "starved", "not counted: 2 jobs that are ordered and wait for their turn"},
}

func ago() time.Time { return time.Now().Add(-time.Minute) }

// several enqueues equal jobs that come before those of priority 0, unless they are ordered.
func several(t *testing.T, q queue.Enqueuer, n int, job queue.Job) {
	t.Helper()
	if !job.Ordered {
		job.Priority = -1
	}
	for range n {
		enqueue(t, q, job)
	}
}

// TestAhead: only jobs count that workers would really claim before the job.
func TestAhead(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for name, open := range everyBackend {
		for _, c := range aheadCases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"first", "q"}, Kinds: []string{"test", "slow"}})
				a := explain(t, q, ops.Question{ID: c.make(t, q)})
				text := a.Reasons[0].Verdict + "\n" + strings.Join(a.Reasons[0].Evidence, "\n")
				if reasonIDs(a) != c.want || !strings.Contains(text, c.says) {
					t.Errorf("got %s: %s\nwant %s: %q", reasonIDs(a), text, c.want, c.says)
				}
			})
		}
	}
}

// TestPace: the time that jobs ahead take is estimated by the queue's last minutes.
func TestPace(t *testing.T) {
	t.Parallel()
	for name, open := range everyBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			w := idle
			w.Concurrency = 1
			stats := driver.MinuteStats{Queue: "q", Kind: "test", Age: 10 * time.Minute, Stats: queue.Stats{Done: 20}}
			if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, Age: time.Hour, ClaimAge: time.Second, Stats: []driver.MinuteStats{stats}}); err != nil {
				t.Fatal(err)
			}
			several(t, q, 4, queue.Job{Queue: "q"})
			a := explain(t, q, ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})})
			wantReason(t, a, "jobs-ahead")
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
	back := func(t *testing.T, q backends, job queue.Job) int64 {
		id := enqueue(t, q, job)
		settle(t, q, queue.Outcome{Job: claim(t, q, "q", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return id
	}
	for _, c := range []struct {
		want string
		make func(t *testing.T, q backends) int64
	}{
		{"kind-not-handled back-off", func(t *testing.T, q backends) int64 {
			return back(t, q, queue.Job{Queue: "q", Kind: "unknown"})
		}},
		{"kind-not-handled delayed", func(t *testing.T, q backends) int64 {
			return enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown", Delay: time.Hour})
		}},
		{"queue-not-served delayed", func(t *testing.T, q backends) int64 {
			return enqueue(t, q, queue.Job{Queue: "other", Delay: time.Hour})
		}},
		{"queue-paused delayed", func(t *testing.T, q backends) int64 {
			if err := q.PauseQueue(t.Context(), nil, "q", true); err != nil {
				t.Fatal(err)
			}
			return enqueue(t, q, queue.Job{Queue: "q", Delay: time.Hour})
		}},
		{"behind-stuck", func(t *testing.T, q backends) int64 { // its own kind is handled
			enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown", Group: "g", Ordered: true})
			return enqueue(t, q, queue.Job{Queue: "q", Group: "g", Ordered: true})
		}},
		{"behind-stuck", func(t *testing.T, q backends) int64 {
			if err := q.PauseKinds(t.Context(), nil, "slow"); err != nil {
				t.Fatal(err)
			}
			enqueue(t, q, queue.Job{Queue: "q", Kind: "slow", Group: "g", Ordered: true})
			return enqueue(t, q, queue.Job{Queue: "q", Group: "g", Ordered: true})
		}},
		{"kind-not-handled behind-back-off", func(t *testing.T, q backends) int64 {
			back(t, q, queue.Job{Queue: "q", Group: "g", Ordered: true})
			return enqueue(t, q, queue.Job{Queue: "q", Kind: "unhandled", Group: "g", Ordered: true})
		}},
		{"kind-not-handled group-limit", func(t *testing.T, q backends) int64 {
			setRules(t, q, queue.Rule{Queue: "q", PerGroup: 1})
			enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
			claim(t, q, "q", time.Minute)
			return enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown", Group: "g"})
		}},
		{"kind-not-handled queue-rate", func(t *testing.T, q backends) int64 {
			setRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1, Per: time.Hour}})
			enqueue(t, q, queue.Job{Queue: "q"})
			claim(t, q, "q", time.Minute)
			return enqueue(t, q, queue.Job{Queue: "q", Kind: "unknown"})
		}},
	} {
		for name, open := range everyBackend {
			t.Run(name+"/"+c.want, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"q"}, Kinds: []string{"test", "slow"}})
				if a := explain(t, q, ops.Question{ID: c.make(t, q)}); reasonIDs(a) != c.want {
					t.Errorf("got %s, want %s", reasonIDs(a), c.want)
				}
			})
		}
	}
}

// TestManyUnserved: Doctor names up to five queues and kinds that nobody serves, and how many more.
func TestManyUnserved(t *testing.T) {
	t.Parallel()
	for name, open := range everyBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			for i := range 7 {
				enqueue(t, q, queue.Job{Queue: fmt.Sprintf("queue-%d", i), ScheduledAt: ago()})
				enqueue(t, q, queue.Job{Queue: "q", Kind: fmt.Sprintf("kind-%d", i), ScheduledAt: ago()})
			}
			c := examine(t, q, ops.Options{})["nobody-serves"]
			if want := "no worker is alive; queues with due jobs: q, queue-0, queue-1, queue-2, queue-3, and 3 more"; c.Value != want || c.Level != ops.Fail {
				t.Errorf("got %+v, want %q", c, want)
			}
			report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"q"}, Kinds: []string{"test"}})
			c = examine(t, q, ops.Options{})["nobody-serves"]
			for _, want := range []string{"queue-0, queue-1, queue-2, queue-3, queue-4, and 2 more", "kind-4 in the queue q, and 2 more"} {
				if !strings.Contains(c.Value, want) || c.Level != ops.Fail {
					t.Errorf("got %+v, want %q", c, want)
				}
			}
		})
	}
}
