package ops_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// cases are faults that every backend can have. make returns what to ask.
var cases = []struct {
	reason string
	level  ops.Level
	make   func(t *testing.T, q backends) ops.Question
}{
	{"completed", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
		return ops.Question{ID: id}
	}},
	{"dead", ops.Fail, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{MaxAttempts: 1})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Retry, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"dead-discarded", ops.Fail, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"dead-crashed", ops.Fail, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{MaxAttempts: 1})
		claim(t, q, "", time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		if jobs, err := q.Reclaim(t.Context(), 10); err != nil || len(jobs) != 1 {
			t.Fatalf("reclaimed %d, error %v", len(jobs), err)
		}
		return ops.Question{ID: id}
	}},
	{"cancelled", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		cancel(t, q, id)
		return ops.Question{ID: id}
	}},
	{"held", ops.Fail, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: held(t, q)}
	}},
	{"behind-held", ops.Fail, func(t *testing.T, q backends) ops.Question {
		held(t, q)
		return ops.Question{ID: enqueue(t, q, queue.Job{Group: "g", Ordered: true})}
	}},
	{"behind-running", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		id := enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		claim(t, q, "", time.Minute)
		return ops.Question{ID: id}
	}},
	{"behind-back-off", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		id := enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"behind-pending", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Group: "g", Ordered: true, Delay: time.Hour})
		return ops.Question{ID: enqueue(t, q, queue.Job{Group: "g", Ordered: true})}
	}},
	{"running", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		claim(t, q, "", time.Minute)
		return ops.Question{ID: id}
	}},
	{"cancel-asked", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		claim(t, q, "", time.Minute)
		cancel(t, q, id)
		return ops.Question{ID: id}
	}},
	{"lease-expired", ops.Warn, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		claim(t, q, "", time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		return ops.Question{ID: id}
	}},
	{"delayed", ops.OK, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{Delay: time.Hour})}
	}},
	{"back-off", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"put-off", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Release, Delay: time.Hour})
		return ops.Question{ID: id}
	}},
	{"put-off", ops.OK, func(t *testing.T, q backends) ops.Question { // throttled
		id := enqueue(t, q, queue.Job{Queue: "q"})
		settle(t, q, queue.Outcome{Job: claim(t, q, "q", time.Minute)[0], Action: queue.Release, Delay: time.Hour, Throttle: true})
		return ops.Question{ID: id}
	}},
	{"put-off", ops.OK, func(t *testing.T, q backends) ops.Question { // replaced
		id := enqueue(t, q, queue.Job{Key: "a key"})
		enqueue(t, q, queue.Job{Key: "a key", OnDuplicate: queue.Replace, Delay: time.Hour})
		return ops.Question{ID: id}
	}},
	{"queue-paused", ops.Warn, func(t *testing.T, q backends) ops.Question {
		if err := q.PauseQueue(t.Context(), nil, "q", true); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-paused", ops.Warn, func(t *testing.T, q backends) ops.Question {
		if err := q.PauseGroup(t.Context(), nil, "q", "g", true); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"kind-paused", ops.Warn, func(t *testing.T, q backends) ops.Question {
		if err := q.PauseKinds(t.Context(), nil, "k"); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: enqueue(t, q, queue.Job{Kind: "k"})}
	}},
	{"queue-limit", ops.Warn, func(t *testing.T, q backends) ops.Question {
		setRules(t, q, queue.Rule{Queue: "q", Running: 1})
		enqueue(t, q, queue.Job{Queue: "q"})
		claim(t, q, "q", time.Minute)
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-limit", ops.Warn, func(t *testing.T, q backends) ops.Question {
		setRules(t, q, queue.Rule{Queue: "q", PerGroup: 5}, queue.Rule{Queue: "q", Group: "g", PerGroup: 1})
		enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
		claim(t, q, "q", time.Minute)
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"queue-rate", ops.Warn, func(t *testing.T, q backends) ops.Question {
		setRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1, Per: time.Hour}})
		enqueue(t, q, queue.Job{Queue: "q"})
		claim(t, q, "q", time.Minute)
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-rate", ops.Warn, func(t *testing.T, q backends) ops.Question {
		setRules(t, q, queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}})
		enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
		claim(t, q, "q", time.Minute)
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"throttled", ops.Warn, func(t *testing.T, q backends) ops.Question {
		setRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000}})
		enqueue(t, q, queue.Job{Queue: "q"})
		job := claim(t, q, "q", time.Minute)[0]
		settle(t, q, queue.Outcome{Job: job, Action: queue.Release, Delay: time.Hour, Throttle: true})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"jobs-ahead", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Priority: -1})
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"just-due", ops.OK, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"unexplained", ops.Fail, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(-time.Minute)})}
	}},
	{"just-due", ops.OK, func(t *testing.T, q backends) ops.Question { // by its key, in spite of an ended job
		enqueue(t, q, queue.Job{Key: "a key"})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
		enqueue(t, q, queue.Job{Key: "a key"})
		return ops.Question{Key: "a key"}
	}},
	{"completed", ops.OK, func(t *testing.T, q backends) ops.Question { // by its key
		enqueue(t, q, queue.Job{Key: "a key"})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
		return ops.Question{Key: "a key", Queue: queue.DefaultQueue}
	}},
	{"deleted", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		if n, err := q.Delete(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil || n != 1 {
			t.Fatalf("deleted %d, error %v", n, err)
		}
		if err := q.Audit(t.Context(), nil, queue.AuditEntry{Actor: "ann", Action: "jobs.delete", Count: 1, JobID: id}); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: id}
	}},
	{"no-such-key", ops.Warn, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Key: "a key", Queue: "q"})
		return ops.Question{Key: "a key", Queue: queue.DefaultQueue}
	}},
	{"delayed", ops.OK, func(t *testing.T, q backends) ops.Question { // by its kind: the next one
		enqueue(t, q, queue.Job{Kind: "k", Delay: time.Hour})
		enqueue(t, q, queue.Job{Kind: "other"})
		return ops.Question{Kind: "k"}
	}},
	{"nothing-waits", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Queue: "q"})
		claim(t, q, "q", time.Minute)
		return ops.Question{Queue: "q"}
	}},
	{"nothing-waits", ops.OK, func(t *testing.T, q backends) ops.Question { // a kind that runs
		enqueue(t, q, queue.Job{Kind: "emails"})
		claim(t, q, "", time.Minute)
		return ops.Question{Kind: "emails"}
	}},
	{"unknown-kind", ops.Warn, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Kind: "emails"})
		return ops.Question{Kind: "email"}
	}},
	{"unknown-kind", ops.Warn, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Kind: "emails"})
		return ops.Question{Kind: "email", Queue: queue.DefaultQueue}
	}},
	{"empty-queue", ops.Warn, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Queue: "emails"})
		return ops.Question{Queue: "email"}
	}},
}

func cancel(t *testing.T, q driver.Canceller, id int64) {
	t.Helper()
	if n, err := q.Cancel(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil || n != 1 {
		t.Fatalf("cancelled %d, error %v", n, err)
	}
}

func setRules(t *testing.T, q driver.Ruler, rules ...queue.Rule) {
	t.Helper()
	if err := q.SetRules(t.Context(), nil, rules...); err != nil {
		t.Fatal(err)
	}
}

// held makes an ordered job of group g that is held, and returns its ID.
func held(t *testing.T, q backends) int64 {
	t.Helper()
	setRules(t, q, queue.Rule{OnDead: queue.HoldDead})
	id := enqueue(t, q, queue.Job{Group: "g", Ordered: true})
	settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
	return id
}

// TestExplain: Explain names each cause, and no other, on every backend.
func TestExplain(t *testing.T) {
	t.Parallel()
	for name, open := range everyBackend {
		for _, c := range cases {
			t.Run(name+"/"+c.reason, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				report(t, q, idle)
				a := explain(t, q, c.make(t, q))
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

// everyBackend opens a queue of each backend.
var everyBackend = map[string]func(t *testing.T) backends{
	"memory":   func(*testing.T) backends { return memory.New(memory.Options{}) },
	"postgres": func(t *testing.T) backends { _, q := fresh(t); return q },
	"sqlite":   func(t *testing.T) backends { _, q := freshFile(t); return q },
	"redis":    func(t *testing.T) backends { return audited{freshNamespace(t), memory.New(memory.Options{})} },
}

// TestExplainSQLite: Explain names the causes that only the file knows.
func TestExplainSQLite(t *testing.T) {
	t.Parallel()
	db, q := freshFile(t)
	report(t, q, idle)
	id := enqueue(t, q, queue.Job{})
	wantReason(t, explain(t, q, ops.Question{ID: id + 1}), "never-existed")
	job := enqueue(t, q, queue.Job{})
	exec(t, db, `DELETE FROM errand_jobs WHERE id = $1`, job)
	wantReason(t, explain(t, q, ops.Question{ID: job}), "gone")
	tx := begin(t, db) // has the write lock
	wantReason(t, explain(t, q, ops.Question{ID: id}), "write-locked")
	_ = tx.Rollback()
	wantReason(t, explain(t, q, ops.Question{ID: id}), "just-due")
}

// reasonIDs returns the IDs of the reasons.
func reasonIDs(a ops.Answer) string {
	var ids []string
	for _, r := range a.Reasons {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func wantReason(t *testing.T, a ops.Answer, id string) {
	t.Helper()
	if len(a.Reasons) != 1 || a.Reasons[0].ID != id {
		t.Errorf("reasons %+v, want %s alone", a.Reasons, id)
	}
}

// TestRemedy: names with characters that mean something to a shell are quoted.
func TestRemedy(t *testing.T) {
	q := memory.New(memory.Options{})
	if err := q.PauseGroup(t.Context(), nil, "q", "it's $(me)", true); err != nil {
		t.Fatal(err)
	}
	a := explain(t, q, ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "it's $(me)"})})
	if got, want := a.Reasons[0].Remedy, `errand queues resume q --group 'it'\''s $(me)'`; got != want {
		t.Errorf("got the remedy %s, want %s", got, want)
	}
}

// TestQuestions: a bad question is an error that names its field.
func TestQuestions(t *testing.T) {
	q := memory.New(memory.Options{})
	for _, question := range []ops.Question{{}, {ID: -1}, {ID: 1, Queue: "q"}, {Key: "k", Kind: "k"}} {
		_, err := ops.Explain(t.Context(), q, question)
		if _, ok := errors.AsType[*queue.InvalidError](err); !ok {
			t.Errorf("%+v: error %v", question, err)
		}
	}
}
