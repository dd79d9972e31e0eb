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
	for _, c := range []struct {
		rules  []queue.Rule
		remedy string
	}{
		{[]queue.Rule{{Running: 1}}, "--running 2"},
		{[]queue.Rule{{PerGroup: 1}}, "--per-group 2"},
		{[]queue.Rule{{PerGroup: 5}, {Group: "g", PerGroup: 1}}, "--group g --per-group 2"},
		{[]queue.Rule{{Rate: hourly}}, "--rate 2/1h"},
		{[]queue.Rule{{GroupRate: hourly}}, "--group-rate 2/1h"},
		{[]queue.Rule{{GroupRate: queue.Rate{Jobs: 9}}, {Group: "g", GroupRate: hourly}}, "--group g --group-rate 2/1h"},
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
			if r := explain(t, q, ops.Question{ID: dead}).Reasons[0]; r.Remedy != fmt.Sprintf("mend the cause, then errand jobs retry %d", dead) {
				t.Errorf("its key is free: %s", r.Remedy)
			}
			cancelled := enqueue(t, q, job)
			cancel(t, q, cancelled)
			enqueue(t, q, queue.Job{Queue: "other", Key: "a key"})
			holder := enqueue(t, q, job)
			for id, begin := range map[int64]string{dead: "mend the cause, then ", cancelled: "to run it all the same: "} {
				r := explain(t, q, ops.Question{ID: id}).Reasons[0]
				want := fmt.Sprintf("%swait until job %d has ended, or: errand jobs cancel %d. Only then errand jobs retry %d", begin, holder, holder, id)
				if fact := fmt.Sprintf("job %d is live and has its key \"a key\", so a retry is refused", holder); r.Remedy != want || !slices.Contains(r.Evidence, fact) {
					t.Errorf("got %q, %s\nwant %s", r.Evidence, r.Remedy, want)
				}
			}
		})
	}
}
