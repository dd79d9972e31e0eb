package explain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// cases are faults that every backend can have. make returns what to ask.
var cases = []struct {
	reason string
	level  ops.Level
	make   func(t *testing.T, q opstest.Backends) explain.Question
}{
	{"completed", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Done})
		return explain.Question{ID: id}
	}},
	{"dead", ops.Fail, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{MaxAttempts: 1})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Retry, Err: errors.New("no")})
		return explain.Question{ID: id}
	}},
	{"dead-discarded", ops.Fail, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
		return explain.Question{ID: id}
	}},
	{"dead-crashed", ops.Fail, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{MaxAttempts: 1})
		opstest.Claim(t, q, "", time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		if jobs, err := q.Reclaim(t.Context(), 10); err != nil || len(jobs) != 1 {
			t.Fatalf("reclaimed %d, error %v", len(jobs), err)
		}
		return explain.Question{ID: id}
	}},
	{"cancelled", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		cancel(t, q, id)
		return explain.Question{ID: id}
	}},
	{"held", ops.Fail, func(t *testing.T, q opstest.Backends) explain.Question {
		return explain.Question{ID: held(t, q)}
	}},
	{"behind-held", ops.Fail, func(t *testing.T, q opstest.Backends) explain.Question {
		held(t, q)
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true})}
	}},
	{"behind-running", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		id := opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		opstest.Claim(t, q, "", time.Minute)
		return explain.Question{ID: id}
	}},
	{"behind-back-off", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		id := opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return explain.Question{ID: id}
	}},
	{"behind-pending", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true, Delay: time.Hour})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true})}
	}},
	{"running", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Claim(t, q, "", time.Minute)
		return explain.Question{ID: id}
	}},
	{"cancel-asked", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Claim(t, q, "", time.Minute)
		cancel(t, q, id)
		return explain.Question{ID: id}
	}},
	{"lease-expired", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Claim(t, q, "", time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		return explain.Question{ID: id}
	}},
	{"delayed", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Delay: time.Hour})}
	}},
	{"back-off", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return explain.Question{ID: id}
	}},
	{"put-off", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Release, Delay: time.Hour})
		return explain.Question{ID: id}
	}},
	{"put-off", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question { // throttled
		id := opstest.Enqueue(t, q, queue.Job{Queue: "q"})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "q", time.Minute)[0], Action: queue.Release, Delay: time.Hour, Throttle: true})
		return explain.Question{ID: id}
	}},
	{"put-off", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question { // replaced
		id := opstest.Enqueue(t, q, queue.Job{Key: "a key"})
		opstest.Enqueue(t, q, queue.Job{Key: "a key", OnDuplicate: queue.Replace, Delay: time.Hour})
		return explain.Question{ID: id}
	}},
	{"queue-paused", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Queue: "q"}, true); err != nil {
			t.Fatal(err)
		}
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-paused", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Group: "g", InQueue: "q"}, true); err != nil {
			t.Fatal(err)
		}
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"kind-paused", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "k"}, true); err != nil {
			t.Fatal(err)
		}
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Kind: "k"})}
	}},
	{"queue-limit", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.SetRules(t, q, queue.Rule{Queue: "q", Running: 1})
		opstest.Enqueue(t, q, queue.Job{Queue: "q"})
		opstest.Claim(t, q, "q", time.Minute)
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-limit", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.SetRules(t, q, queue.Rule{Queue: "q", PerGroup: 5}, queue.Rule{Queue: "q", Group: "g", PerGroup: 1})
		opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
		opstest.Claim(t, q, "q", time.Minute)
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"queue-rate", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.SetRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1, Per: time.Hour}})
		opstest.Enqueue(t, q, queue.Job{Queue: "q"})
		opstest.Claim(t, q, "q", time.Minute)
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-rate", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.SetRules(t, q, queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}})
		opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
		opstest.Claim(t, q, "q", time.Minute)
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"throttled", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.SetRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000}})
		opstest.Enqueue(t, q, queue.Job{Queue: "q"})
		job := opstest.Claim(t, q, "q", time.Minute)[0]
		opstest.Settle(t, q, queue.Outcome{Job: job, Action: queue.Release, Delay: time.Hour, Throttle: true})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"jobs-ahead", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Priority: -1})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}
	}},
	{"just-due", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}
	}},
	{"unexplained", ops.Fail, func(t *testing.T, q opstest.Backends) explain.Question {
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(-time.Minute)})}
	}},
	{"just-due", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question { // by its key, in spite of an ended job
		opstest.Enqueue(t, q, queue.Job{Key: "a key"})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Done})
		opstest.Enqueue(t, q, queue.Job{Key: "a key"})
		return explain.Question{Key: "a key"}
	}},
	{"completed", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question { // by its key
		opstest.Enqueue(t, q, queue.Job{Key: "a key"})
		opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Done})
		return explain.Question{Key: "a key", Queue: queue.DefaultQueue}
	}},
	{"deleted", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		id := opstest.Enqueue(t, q, queue.Job{})
		if n, err := q.Delete(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil || n != 1 {
			t.Fatalf("deleted %d, error %v", n, err)
		}
		if err := q.Audit(t.Context(), nil, queue.AuditEntry{Actor: "ann", Action: "jobs.delete", Count: 1, JobID: id}); err != nil {
			t.Fatal(err)
		}
		return explain.Question{ID: id}
	}},
	{"no-such-key", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Key: "a key", Queue: "q"})
		return explain.Question{Key: "a key", Queue: queue.DefaultQueue}
	}},
	{"delayed", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question { // by its kind: the next one
		opstest.Enqueue(t, q, queue.Job{Kind: "k", Delay: time.Hour})
		opstest.Enqueue(t, q, queue.Job{Kind: "other"})
		return explain.Question{Kind: "k"}
	}},
	{"nothing-waits", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Queue: "q"})
		opstest.Claim(t, q, "q", time.Minute)
		return explain.Question{Queue: "q"}
	}},
	{"nothing-waits", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question { // a kind that runs
		opstest.Enqueue(t, q, queue.Job{Kind: "emails"})
		opstest.Claim(t, q, "", time.Minute)
		return explain.Question{Kind: "emails"}
	}},
	{"unknown-kind", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Kind: "emails"})
		return explain.Question{Kind: "email"}
	}},
	{"unknown-kind", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Kind: "emails"})
		return explain.Question{Kind: "email", Queue: queue.DefaultQueue}
	}},
	{"empty-queue", ops.Warn, func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{Queue: "emails"})
		return explain.Question{Queue: "email"}
	}},
	{"nothing-waits", ops.OK, func(t *testing.T, q opstest.Backends) explain.Question { // a queue whose jobs have run and are pruned
		ran := []driver.MinuteStats{{Queue: "emails", Kind: "email", Age: time.Minute, Stats: queue.Stats{Done: 3}}}
		if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: opstest.Idle, Age: time.Hour, ClaimAge: time.Second, Stats: ran}); err != nil {
			t.Fatal(err)
		}
		return explain.Question{Queue: "emails"}
	}},
}

func cancel(t *testing.T, q driver.Canceller, id int64) {
	t.Helper()
	if n, err := q.Cancel(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil || n != 1 {
		t.Fatalf("cancelled %d, error %v", n, err)
	}
}

// held makes an ordered job of group g that is held, and returns its ID.
func held(t *testing.T, q opstest.Backends) int64 {
	t.Helper()
	opstest.SetRules(t, q, queue.Rule{OnDead: queue.HoldDead})
	id := opstest.Enqueue(t, q, queue.Job{Group: "g", Ordered: true})
	opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
	return id
}

// uncounted is a backend whose counts leave out a queue, as those of a long table may.
type uncounted struct{ *memory.Queue }

func (uncounted) Counts(context.Context) ([]queue.StatusCount, error) { return nil, nil }

// TestUncounted: explain does not say that the name of a queue is misspelt because the counts leave
// it out.
func TestUncounted(t *testing.T) {
	t.Parallel()
	q := uncounted{memory.New(memory.Options{})}
	opstest.Enqueue(t, q, queue.Job{Queue: "emails"})
	opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "emails", time.Minute)[0], Action: queue.Done})
	a := opstest.Explain(t, q, explain.Question{Queue: "emails"})
	if opstest.ReasonIDs(a) != "nothing-waits" || a.Level() != ops.OK {
		t.Errorf("got %+v, want nothing-waits", a.Reasons)
	}
}

// TestExplain: explain names each cause, and no other, on every backend.
func TestExplain(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		for _, c := range cases {
			t.Run(name+"/"+c.reason, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				opstest.Report(t, q, opstest.Idle)
				a := opstest.Explain(t, q, c.make(t, q))
				if len(a.Reasons) != 1 || a.Reasons[0].ID != c.reason || a.Level() != c.level {
					t.Errorf("level %s, want %s for %s alone", a.Level(), c.level, c.reason)
				}
				if len(a.Unknown) > 0 {
					t.Errorf("not known: %q", a.Unknown)
				}
			})
		}
	}
}

// TestExplainSQLite: explain names the causes that only the file knows.
func TestExplainSQLite(t *testing.T) {
	t.Parallel()
	db, q := opstest.FreshFile(t)
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id + 1}), "never-existed")
	job := opstest.Enqueue(t, q, queue.Job{})
	opstest.Exec(t, db, `DELETE FROM errand_jobs WHERE id = $1`, job)
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: job}), "gone")
	tx := opstest.Begin(t, db) // has the write lock
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "write-locked")
	_ = tx.Rollback()
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "just-due")
}

// TestRemedy: names with characters that mean something to a shell are quoted.
func TestRemedy(t *testing.T) {
	q := memory.New(memory.Options{})
	if _, err := q.Pause(t.Context(), nil, queue.Target{Group: "it's $(me)", InQueue: "q"}, true); err != nil {
		t.Fatal(err)
	}
	a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", Group: "it's $(me)"})})
	if got, want := a.Reasons[0].Remedy, `errand queues resume q --group 'it'\''s $(me)'`; got != want {
		t.Errorf("got the remedy %s, want %s", got, want)
	}
}

// TestQuestions: a bad question is an error that names its field.
func TestQuestions(t *testing.T) {
	q := memory.New(memory.Options{})
	for _, question := range []explain.Question{{}, {ID: -1}, {ID: 1, Queue: "q"}, {Key: "k", Kind: "k"}} {
		_, err := explain.Job(t.Context(), q, question)
		if _, ok := errors.AsType[*queue.InvalidError](err); !ok {
			t.Errorf("%+v: error %v", question, err)
		}
	}
}
