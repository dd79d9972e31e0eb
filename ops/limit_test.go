package ops_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/ops"
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
			_, q := fresh(t)
			report(t, q, idle)
			for i := range c.rules {
				c.rules[i].Queue = "q"
			}
			setRules(t, q, c.rules...)
			job := queue.Job{Queue: "q", Group: "g"}
			enqueue(t, q, job)
			claim(t, q, "q", time.Minute)
			want := "wait, or raise the limit, which lasts until a program sets its rules again: errand queues limit q " + c.remedy
			if r := explain(t, q, ops.Question{ID: enqueue(t, q, job)}).Reasons[0]; r.Remedy != want {
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
		for name, open := range everyBackend {
			t.Run(name+"/"+c.onward, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				report(t, q, idle)
				setRules(t, q, c.rule)
				job := queue.Job{Queue: "q", Group: "g"}
				throttled := enqueue(t, q, job)
				settle(t, q, queue.Outcome{Job: claim(t, q, "q", time.Minute)[0], Action: queue.Release, Delay: time.Hour, Throttle: true})
				id := enqueue(t, q, job)
				want := "wait: the service that the handler calls has asked for it. To end it now, take the rate away: errand queues limit q " + c.off +
					". When the throttle would have ended, and not before, give it back: errand queues limit q " + c.onward
				if r := explain(t, q, ops.Question{ID: id}).Reasons[0]; r.ID != "throttled" || r.Remedy != want {
					t.Errorf("got %s: %s, want %s", r.ID, r.Remedy, want)
				}
				if a := explain(t, q, ops.Question{ID: throttled}); reasonIDs(a) != "put-off throttled" || a.Reasons[0].Remedy != "wait: it cannot start before the throttle has ended" {
					t.Errorf("the throttled job: got %+v", a.Reasons)
				}
				setRules(t, q, c.ends)
				wantReason(t, explain(t, q, ops.Question{ID: id}), "just-due")
				if jobs := claim(t, q, "q", time.Minute); len(jobs) != 1 || jobs[0].ID != id {
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
	for name, open := range everyBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			job := queue.Job{Queue: "q", Key: "a key"}
			dead := enqueue(t, q, job)
			settle(t, q, queue.Outcome{Job: claim(t, q, "q", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
			if r := explain(t, q, ops.Question{ID: dead}).Reasons[0]; r.Remedy != fmt.Sprintf("mend the cause, then errand jobs redrive %d", dead) {
				t.Errorf("its key is free: %s", r.Remedy)
			}
			cancelled := enqueue(t, q, job)
			cancel(t, q, cancelled)
			enqueue(t, q, queue.Job{Queue: "other", Key: "a key"})
			holder := enqueue(t, q, job)
			for id, begin := range map[int64]string{dead: "mend the cause, then ", cancelled: "to run it all the same: "} {
				r := explain(t, q, ops.Question{ID: id}).Reasons[0]
				want := fmt.Sprintf("%swait until job %d has ended, or: errand jobs cancel %d. Only then errand jobs redrive %d", begin, holder, holder, id)
				if fact := fmt.Sprintf("job %d is live and has its key \"a key\", so a retry is refused", holder); r.Remedy != want || !slices.Contains(r.Evidence, fact) {
					t.Errorf("got %q, %s\nwant %s", r.Evidence, r.Remedy, want)
				}
			}
		})
	}
}
