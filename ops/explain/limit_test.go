package explain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestLimitRemedies: a limit or a rate that holds a job has a remedy that is a command.
func TestLimitRemedies(t *testing.T) {
	t.Parallel()
	hourly := queue.Rate{Jobs: 1, Per: time.Hour}
	const half = ". With that it may start in 30m"
	for _, c := range []struct {
		rules  []queue.Rule
		remedy string
	}{
		{[]queue.Rule{{Running: 1}}, "--running 2"},
		{[]queue.Rule{{PerGroup: 1}}, "--per-group 2"},
		{[]queue.Rule{{PerGroup: 5}, {Group: "g", PerGroup: 1}}, "--group g --per-group 2"},
		{[]queue.Rule{{Rate: hourly}}, "--rate 2/1h" + half},
		{[]queue.Rule{{GroupRate: hourly}}, "--group-rate 2/1h" + half},
		{[]queue.Rule{{GroupRate: queue.Rate{Jobs: 9}}, {Group: "g", GroupRate: hourly}}, "--group g --group-rate 2/1h" + half},
	} {
		t.Run(c.remedy, func(t *testing.T) {
			t.Parallel()
			_, q := opstest.Fresh(t)
			opstest.Report(t, q, opstest.Idle)
			for i := range c.rules {
				c.rules[i].Queue = "q"
			}
			opstest.SetRules(t, q, c.rules...)
			job := queue.Job{Queue: "q", Group: "g"}
			opstest.Enqueue(t, q, job)
			opstest.Claim(t, q, "q", time.Minute)
			want := "wait, or raise the limit, which lasts until a program sets its rules again: errand queues limit q " + c.remedy
			if r := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, job)}).Reasons[0]; r.Remedy != want {
				t.Errorf("got %s: %s, want %s", r.ID, r.Remedy, want)
			}
		})
	}
}

// TestEndThrottle: the remedy of a throttle ends it, and gives the same rate back. As long as it
// lasts, a job that is due later is not to be run now.
func TestEndThrottle(t *testing.T) {
	t.Parallel()
	rate := queue.Rate{Jobs: 100, Burst: 5}
	for _, c := range []struct {
		rule        queue.Rule
		ends        queue.Rule // what the first command sets
		off, onward string
	}{
		{queue.Rule{Queue: "q", Rate: rate}, queue.Rule{Queue: "q"}, "--rate 0", "--rate 100/1s --rate-burst 5"},
		{queue.Rule{Queue: "q", GroupRate: rate}, queue.Rule{Queue: "q", Group: "g", GroupRate: queue.Rate{Jobs: -1}}, "--group g --group-rate -1", "--group g --group-rate 0"},
		{queue.Rule{Queue: "q", Group: "g", GroupRate: rate}, queue.Rule{Queue: "q", Group: "g", GroupRate: queue.Rate{Jobs: -1}}, "--group g --group-rate -1", "--group g --group-rate 100/1s --group-rate-burst 5"},
	} {
		for name, open := range opstest.EveryBackend {
			t.Run(name+"/"+c.onward, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				opstest.Report(t, q, opstest.Idle)
				opstest.SetRules(t, q, c.rule)
				job := queue.Job{Queue: "q", Group: "g"}
				throttled := opstest.Enqueue(t, q, job)
				opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "q", time.Minute)[0], Action: queue.Release, Delay: time.Hour, Throttle: true})
				id := opstest.Enqueue(t, q, job)
				want := "wait: the service that the handler calls has asked for it. To end it now, take the rate away: errand queues limit q " + c.off +
					". When the throttle would have ended, and not before, give it back: errand queues limit q " + c.onward
				if r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]; r.ID != "throttled" || r.Remedy != want {
					t.Errorf("got %s: %s, want %s", r.ID, r.Remedy, want)
				}
				if a := opstest.Explain(t, q, explain.Question{ID: throttled}); opstest.ReasonIDs(a) != "put-off throttled" || a.Reasons[0].Remedy != "wait: it cannot start before the throttle has ended" {
					t.Errorf("the throttled job: got %+v", a.Reasons)
				}
				opstest.SetRules(t, q, c.ends)
				opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "just-due")
				if jobs := opstest.Claim(t, q, "q", time.Minute); len(jobs) != 1 || jobs[0].ID != id {
					t.Errorf("claimed %v, want job %d", jobs, id)
				}
			})
		}
	}
}

// TestKeyHeld: a live job has the key of a dead or cancelled job, which can therefore not be
// retried.
func TestKeyHeld(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			job := queue.Job{Queue: "q", Key: "a key"}
			dead := opstest.Enqueue(t, q, job)
			opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "q", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
			if r := opstest.Explain(t, q, explain.Question{ID: dead}).Reasons[0]; r.Remedy != fmt.Sprintf("mend the cause, then errand jobs redrive %d", dead) {
				t.Errorf("its key is free: %s", r.Remedy)
			}
			cancelled := opstest.Enqueue(t, q, job)
			cancel(t, q, cancelled)
			opstest.Enqueue(t, q, queue.Job{Queue: "other", Key: "a key"})
			holder := opstest.Enqueue(t, q, job)
			for id, begin := range map[int64]string{dead: "mend the cause, then ", cancelled: "to run it all the same: "} {
				r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]
				want := fmt.Sprintf("%swait until job %d has ended, or: errand jobs cancel %d. Only then errand jobs redrive %d", begin, holder, holder, id)
				if fact := fmt.Sprintf("job %d is live and has its key \"a key\", so a retry is refused", holder); r.Remedy != want || !slices.Contains(r.Evidence, fact) {
					t.Errorf("got %q, %s\nwant %s", r.Evidence, r.Remedy, want)
				}
			}
		})
	}
}

// TestLimitsRedis: explain knows on Redis which limit or rate holds a job, and that a handler has
// asked for a pause.
func TestLimitsRedis(t *testing.T) {
	t.Parallel()
	hourly := queue.Rate{Jobs: 1, Per: time.Hour}
	done := func(t *testing.T, q *redis.Backend, claimed *queue.Job) {
		opstest.Settle(t, q, queue.Outcome{Job: claimed})
	}
	for _, c := range []struct {
		reason, remedy string
		rules          []queue.Rule
		first          func(t *testing.T, q *redis.Backend, claimed *queue.Job) // what becomes of the job before it
	}{
		{"queue-limit", "--running 2", []queue.Rule{{Running: 1}}, nil},
		{"group-limit", "--per-group 2", []queue.Rule{{PerGroup: 1}}, nil},
		{"queue-rate", "--rate 2/1h", []queue.Rule{{Rate: hourly}}, done},
		{"group-rate", "--group-rate 2/1h", []queue.Rule{{GroupRate: hourly}}, done},
		{"group-rate", "--group g --group-rate 2/1h", []queue.Rule{{GroupRate: queue.Rate{Jobs: 9}}, {Group: "g", GroupRate: hourly}}, done},
		{"throttled", "", []queue.Rule{{Rate: queue.Rate{Jobs: 9}}}, func(t *testing.T, q *redis.Backend, claimed *queue.Job) {
			opstest.Settle(t, q, queue.Outcome{Job: claimed, Action: queue.Release, Delay: time.Hour, Throttle: true})
		}},
	} {
		t.Run(c.reason+" "+c.remedy, func(t *testing.T) {
			t.Parallel()
			q := opstest.FreshNamespace(t)
			opstest.Report(t, q, opstest.Idle)
			for i := range c.rules {
				c.rules[i].Queue = "q"
			}
			opstest.SetRules(t, q, c.rules...)
			job := queue.Job{Queue: "q", Group: "g"}
			opstest.Enqueue(t, q, job)
			claimed := opstest.Claim(t, q, "q", time.Minute)
			if c.first != nil {
				c.first(t, q, claimed[0])
			}
			id := opstest.Enqueue(t, q, job)
			answer, err := explain.Job(t.Context(), q, explain.Question{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if r := answer.Reasons[0]; r.ID != c.reason || !strings.Contains(r.Remedy, c.remedy) || len(answer.Unknown) > 0 {
				t.Errorf("got %+v, unknown %v; want %s with %q", answer.Reasons, answer.Unknown, c.reason, c.remedy)
			}
		})
	}
}
