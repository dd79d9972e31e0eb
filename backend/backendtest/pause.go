package backendtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var pauseCases = []testCase{
	{"kinds", hasPauser, testPauseKinds},
	{"in a transaction", hasPauser | hasTx, testPauseInTx},
	{"a bad kind", hasPauser, testPauseBad},
	{"a worker", hasPauser, testPauseWorker},
	{"a pause changes nothing else of a rule", hasRuler | isInOrder, testPauseKeepsRule},
	{"setting a rule ends no pause", hasRuler | isInOrder, testRulesKeepPause},
	{"queues and groups in a transaction", hasRuler | hasTx, testPauseQueueInTx},
	{"pauses beside SetRules", hasRuler | isInOrder, testPauseBesideRules},
	{"a bad queue or group", hasRuler, testPauseQueueBad},
}

// wantPausedKinds checks which kinds are paused.
func wantPausedKinds(t *testing.T, h Harness, when string, want ...string) {
	t.Helper()
	pauser, _ := driver.As[driver.Pauser](h.Queue)
	kinds, err := pauser.PausedKinds(t.Context())
	if err != nil || !slices.Equal(kinds, want) {
		t.Fatalf("PausedKinds %s: got %q, error %v; want %q", when, kinds, err, want)
	}
}

func pauseKinds(t *testing.T, h Harness, db queue.DB, kinds ...string) {
	t.Helper()
	pauser, _ := driver.As[driver.Pauser](h.Queue)
	if err := pauser.PauseKinds(t.Context(), db, kinds...); err != nil {
		t.Fatalf("PauseKinds(%q): %v", kinds, err)
	}
}

func resumeKinds(t *testing.T, h Harness, db queue.DB, kinds ...string) {
	t.Helper()
	pauser, _ := driver.As[driver.Pauser](h.Queue)
	if err := pauser.ResumeKinds(t.Context(), db, kinds...); err != nil {
		t.Fatalf("ResumeKinds(%q): %v", kinds, err)
	}
}

func testPauseKinds(t *testing.T, h Harness) {
	wantPausedKinds(t, h, "at first")
	pauseKinds(t, h, nil)
	pauseKinds(t, h, nil, "l", "k", "l")
	pauseKinds(t, h, nil, "k")
	wantPausedKinds(t, h, "after PauseKinds", "k", "l")
	resumeKinds(t, h, nil, "l", "none")
	resumeKinds(t, h, nil)
	wantPausedKinds(t, h, "after ResumeKinds", "k")
	resumeKinds(t, h, nil, "k")
	wantPausedKinds(t, h, "at last")
}

func testPauseInTx(t *testing.T, h Harness) {
	pauseKinds(t, h, nil, "a")
	for _, end := range []func(*testing.T, Tx){rollback, commit} {
		tx := begin(t, h)
		pauseKinds(t, h, tx, "k")
		resumeKinds(t, h, tx, "a")
		wantPausedKinds(t, h, "beside an open PauseKinds", "a")
		end(t, tx)
	}
	wantPausedKinds(t, h, "after the commit", "k")
}

func testPauseBad(t *testing.T, h Harness) {
	pauser, _ := driver.As[driver.Pauser](h.Queue)
	for _, kind := range []string{"", "ä", "\x00"} {
		wantInvalid(t, "PauseKinds", pauser.PauseKinds(t.Context(), nil, "k", kind), "Kind")
		wantInvalid(t, "ResumeKinds", pauser.ResumeKinds(t.Context(), nil, "k", kind), "Kind")
	}
	wantCanceled(t, "PauseKinds", pauser.PauseKinds(cancelled(t), nil, "k"))
	wantPausedKinds(t, h, "after bad kinds")
}

// pauseQueue pauses or resumes the queue q.
func pauseQueue(t *testing.T, h Harness, db queue.DB, paused bool) {
	t.Helper()
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	if err := ruler.PauseQueue(t.Context(), db, "q", paused); err != nil {
		t.Fatalf("PauseQueue(%v): %v", paused, err)
	}
}

// pauseGroup pauses or resumes a group of the queue q.
func pauseGroup(t *testing.T, h Harness, group string, paused bool) {
	t.Helper()
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	if err := ruler.PauseGroup(t.Context(), nil, "q", group, paused); err != nil {
		t.Fatalf("PauseGroup(%q, %v): %v", group, paused, err)
	}
}

func testPauseKeepsRule(t *testing.T, h Harness) {
	rules := []queue.Rule{
		{Queue: "q", Running: 40, PerGroup: 2, Share: 3, OnDead: queue.HoldDead, Rate: queue.Rate{Jobs: 1000},
			GroupRate: queue.Rate{Jobs: 9, Per: time.Second, Burst: 2}},
		{Queue: "q", Group: "é", PerGroup: -1, Share: 2},
	}
	setRules(t, h, rules...)
	for _, paused := range []bool{true, true, false, false} {
		pauseQueue(t, h, nil, paused)
		pauseGroup(t, h, "é", paused)
		rules[0].Paused, rules[1].Paused = paused, paused
		wantRules(t, h, fmt.Sprintf("after pauses with %v", paused), rules...)
	}
	for _, rule := range []queue.Rule{{Queue: "q"}, {Queue: "q", Rate: queue.Rate{Jobs: 1}}, {Queue: "q", OnDead: queue.HoldDead}} {
		setRules(t, h, rule, queue.Rule{Queue: "q", Group: "é"})
		pauseQueue(t, h, nil, true)
		enqueue(t, h, newJob())
		claimNone(t, h, fmt.Sprintf("of a paused queue with the rule %+v", rule))
		pauseQueue(t, h, nil, false)
		job := claim(t, h, request(1))
		if len(job) != 1 || job[0].Limited != rule.IsLimit() {
			t.Fatalf("claim of a resumed queue with the rule %+v: got %+v, want a job that is Limited: %v", rule, job, rule.IsLimit())
		}
		settle(t, h, outcomes(queue.Done, job...)...)
	}
	setRules(t, h, queue.Rule{Queue: "q"})
	pauseGroup(t, h, "never paused", false)
	wantRules(t, h, "without any")
}

func testRulesKeepPause(t *testing.T, h Harness) {
	pauseQueue(t, h, nil, true)
	pauseGroup(t, h, "a", true)
	setRules(t, h, queue.Rule{Queue: "q", Running: 40, PerGroup: 2}, queue.Rule{Queue: "q", Group: "a", Share: 2})
	wantRules(t, h, "after a deploy", queue.Rule{Queue: "q", Running: 40, PerGroup: 2, Paused: true},
		queue.Rule{Queue: "q", Group: "a", Share: 2, Paused: true})
	setRules(t, h, queue.Rule{Queue: "q"}, queue.Rule{Queue: "q", Group: "a"})
	wantRules(t, h, "after removing them", queue.Rule{Queue: "q", Paused: true}, queue.Rule{Queue: "q", Group: "a", Paused: true})
	enqueue(t, h, inGroup("a", 1)...)
	claimNone(t, h, "of a queue that is still paused")
	pauseQueue(t, h, nil, false)
	claimNone(t, h, "of a group that is still paused")
	pauseGroup(t, h, "a", false)
	wantRules(t, h, "without pauses")
	if jobs := claim(t, h, request(1)); len(jobs) != 1 {
		t.Fatalf("claim without pauses: got %d jobs, want 1", len(jobs))
	}
	setRules(t, h, queue.Rule{Queue: "q", Paused: true}, queue.Rule{Queue: "q", Running: 1})
	wantRules(t, h, "of which the last counts", queue.Rule{Queue: "q", Running: 1})
}

func testPauseQueueInTx(t *testing.T, h Harness) {
	limited := queue.Rule{Queue: "q", Running: 3}
	setRules(t, h, limited)
	for _, end := range []func(*testing.T, Tx){rollback, commit} {
		tx := begin(t, h)
		pauseQueue(t, h, tx, true)
		wantRules(t, h, "beside an open PauseQueue", limited)
		end(t, tx)
	}
	limited.Paused = true
	wantRules(t, h, "after the commit", limited)
}

// testPauseBesideRules: programs that start and set their rules undo no pause of a person.
func testPauseBesideRules(t *testing.T, h Harness) {
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for i := range 10 {
				if err := ruler.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Running: i}); err != nil {
					t.Errorf("SetRules: %v", err)
				}
			}
		})
	}
	for range 5 {
		pauseQueue(t, h, nil, false)
		pauseQueue(t, h, nil, true)
	}
	starts.Wait()
	wantRules(t, h, "after all starts", queue.Rule{Queue: "q", Running: 9, Paused: true})
}

func testPauseQueueBad(t *testing.T, h Harness) {
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	for _, name := range []string{"", "ä", "\x00"} {
		wantInvalid(t, "PauseQueue", ruler.PauseQueue(t.Context(), nil, name, true), "Queue")
		wantInvalid(t, "PauseGroup", ruler.PauseGroup(t.Context(), nil, name, "g", true), "Queue")
	}
	for _, group := range []string{"", "\x00", string(make([]byte, 201))} {
		wantInvalid(t, "PauseGroup", ruler.PauseGroup(t.Context(), nil, "q", group, true), "Group")
	}
	wantCanceled(t, "PauseQueue", ruler.PauseQueue(cancelled(t), nil, "q", true))
	wantRules(t, h, "after bad names")
}

// testPauseWorker: a worker runs no job of a paused kind, and runs it once the kind is resumed.
func testPauseWorker(t *testing.T, h Harness) {
	ran := make(chan string, 10)
	mux := queue.NewMux()
	for _, kind := range []string{"k", "l"} {
		mux.Handle(kind, queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			ran <- job.Kind
			return nil
		}))
	}
	pauseKinds(t, h, nil, "k")
	other := newJob()
	other.Kind = "l"
	enqueue(t, h, newJob(), other)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Worker{Backend: h.Queue, Handler: mux, Queues: []string{"q"}}.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	want := func(kind string) {
		t.Helper()
		select {
		case got := <-ran:
			if got != kind {
				t.Fatalf("a job of kind %q has run, want %q", got, kind)
			}
		case <-time.After(patience):
			t.Fatalf("no job of kind %q has run", kind)
		}
	}
	want("l")
	select {
	case kind := <-ran:
		t.Fatalf("a job of the paused kind %q has run", kind)
	case <-time.After(100 * time.Millisecond):
	}
	resumeKinds(t, h, nil, "k")
	want("k")
	pauseKinds(t, h, nil, "k", "l") // all of the worker's kinds
	resumeKinds(t, h, nil, "k", "l")
	enqueue(t, h, newJob())
	want("k")
}
