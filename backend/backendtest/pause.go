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
	{"a bad target", hasPauser, testPauseBad},
	{"what has changed", hasPauser | hasRuler, testPauseChanged},
	{"what has changed in a transaction", hasPauser | hasRuler | hasTx, testPauseChangedInTx},
	{"a worker", hasPauser, testPauseWorker},
	{"a worker is told", hasPauser | hasWakeUps, testPauseTold},
	{"a pause changes nothing else of a rule", hasPauser | hasRuler | isInOrder, testPauseKeepsRule},
	{"setting a rule ends no pause", hasPauser | hasRuler | isInOrder, testRulesKeepPause},
	{"queues and groups in a transaction", hasPauser | hasRuler | hasTx, testPauseRuleInTx},
	{"pauses beside SetRules", hasPauser | hasRuler | isInOrder, testPauseBesideRules},
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

// pause pauses or resumes the target, and reports whether that has changed something.
func pause(t *testing.T, h Harness, db queue.DB, target queue.Target, paused bool) (changed bool) {
	t.Helper()
	pauser, _ := driver.As[driver.Pauser](h.Queue)
	changed, err := pauser.Pause(t.Context(), db, target, paused)
	if err != nil {
		t.Fatalf("Pause(%s, %v): %v", target, paused, err)
	}
	return changed
}

func pauseKinds(t *testing.T, h Harness, db queue.DB, paused bool, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		pause(t, h, db, queue.Target{Kind: kind}, paused)
	}
}

func testPauseKinds(t *testing.T, h Harness) {
	wantPausedKinds(t, h, "at first")
	pauseKinds(t, h, nil, true, "l", "k", "l")
	pauseKinds(t, h, nil, true, "k")
	wantPausedKinds(t, h, "after the pauses", "k", "l")
	pauseKinds(t, h, nil, false, "l", "none")
	wantPausedKinds(t, h, "after its end", "k")
	pauseKinds(t, h, nil, false, "k")
	wantPausedKinds(t, h, "at last")
}

func testPauseInTx(t *testing.T, h Harness) {
	pauseKinds(t, h, nil, true, "a")
	for _, end := range []func(*testing.T, Tx){rollback, commit} {
		tx := begin(t, h)
		pauseKinds(t, h, tx, true, "k")
		pauseKinds(t, h, tx, false, "a")
		wantPausedKinds(t, h, "beside an open Pause", "a")
		end(t, tx)
	}
	wantPausedKinds(t, h, "after the commit", "k")
}

func testPauseBad(t *testing.T, h Harness) {
	pauser, _ := driver.As[driver.Pauser](h.Queue)
	for _, bad := range []struct {
		field  string
		target queue.Target
	}{
		{"Target", queue.Target{}},
		{"Queue", queue.Target{Queue: "ä"}},
		{"Queue", queue.Target{Queue: "\x00"}},
		{"Kind", queue.Target{Kind: "ä"}},
		{"Kind", queue.Target{Kind: "\x00"}},
		{"Schedule", queue.Target{Schedule: "ä"}},
		{"Schedule", queue.Target{Schedule: "a\x00b"}},
		{"Group", queue.Target{InQueue: "q"}},
		{"Group", queue.Target{InQueue: "q", Group: "\x00"}},
		{"Group", queue.Target{InQueue: "q", Group: string(make([]byte, 201))}},
		{"InQueue", queue.Target{Group: "g"}},
		{"InQueue", queue.Target{Group: "g", InQueue: "ä"}},
		{"Target", queue.Target{Queue: "q", Kind: "k"}},
		{"Target", queue.Target{Kind: "k", Schedule: "s"}},
		{"Target", queue.Target{Queue: "q", InQueue: "q"}},
		{"Target", queue.Target{Group: "g", InQueue: "q", Queue: "q"}},
	} {
		for _, paused := range []bool{true, false} {
			_, err := pauser.Pause(t.Context(), nil, bad.target, paused)
			wantInvalid(t, fmt.Sprintf("Pause(%#v, %v)", bad.target, paused), err, bad.field)
		}
	}
	for _, target := range []queue.Target{{Queue: "q"}, {Kind: "k"}, {Group: "g", InQueue: "q"}, {Schedule: "s"}} {
		_, err := pauser.Pause(cancelled(t), nil, target, true)
		wantCanceled(t, fmt.Sprintf("Pause(%s)", target), err)
	}
	wantPausedKinds(t, h, "after bad targets")
	if can[driver.Ruler](h) {
		wantRules(t, h, "after bad targets")
	}
}

// testPauseChanged: Pause says whether it has changed something, and of one target only.
func testPauseChanged(t *testing.T, h Harness) {
	for _, target := range []queue.Target{{Queue: "q"}, {Group: "é", InQueue: "q"}, {Group: "b", InQueue: "q"}, {Kind: "q"}} {
		for i, step := range []struct{ paused, want bool }{{false, false}, {true, true}, {true, false}, {false, true}, {false, false}, {true, true}} {
			if got := pause(t, h, nil, target, step.paused); got != step.want {
				t.Errorf("call %d, Pause(%s, %v): changed is %v, want %v", i, target, step.paused, got, step.want)
			}
		}
	}
	for _, paused := range []bool{true, false} {
		if can[driver.Scheduler](h) && pause(t, h, nil, queue.Target{Schedule: "none"}, paused) {
			t.Errorf("Pause of no schedule, %v: changed is true", paused)
		}
	}
}

// testPauseChangedInTx: a transaction sees its own pauses.
func testPauseChangedInTx(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Group: "a", Paused: true})
	pauseKinds(t, h, nil, true, "a")
	tx := begin(t, h)
	setRulesIn(t, h, tx, queue.Rule{Queue: "q", OnDead: queue.HoldDead}, queue.Rule{Queue: "q", Group: "a", OnDead: queue.PassDead})
	for i, step := range []struct {
		target       queue.Target
		paused, want bool
	}{
		{queue.Target{Queue: "q"}, false, false}, {queue.Target{Queue: "q"}, true, true}, {queue.Target{Queue: "q"}, true, false},
		{queue.Target{Group: "a", InQueue: "q"}, true, false}, {queue.Target{Group: "a", InQueue: "q"}, false, true},
		{queue.Target{Kind: "a"}, true, false}, {queue.Target{Kind: "a"}, false, true}, {queue.Target{Kind: "a"}, false, false},
	} {
		if got := pause(t, h, tx, step.target, step.paused); got != step.want {
			t.Errorf("step %d, Pause(%s, %v): changed is %v, want %v", i, step.target, step.paused, got, step.want)
		}
	}
	commit(t, tx)
	wantPausedKinds(t, h, "after the commit")
	wantRules(t, h, "after the commit", queue.Rule{Queue: "q", OnDead: queue.HoldDead, Paused: true})
}

// pauseQueue pauses or resumes the queue q.
func pauseQueue(t *testing.T, h Harness, db queue.DB, paused bool) {
	t.Helper()
	pause(t, h, db, queue.Target{Queue: "q"}, paused)
}

// pauseGroup pauses or resumes a group of the queue q.
func pauseGroup(t *testing.T, h Harness, group string, paused bool) {
	t.Helper()
	pause(t, h, nil, queue.Target{Group: group, InQueue: "q"}, paused)
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

func testPauseRuleInTx(t *testing.T, h Harness) {
	limited := queue.Rule{Queue: "q", Running: 3}
	setRules(t, h, limited)
	for _, end := range []func(*testing.T, Tx){rollback, commit} {
		tx := begin(t, h)
		pauseQueue(t, h, tx, true)
		wantRules(t, h, "beside an open Pause", limited)
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

// testPauseTold: a pause of a kind and its end are told to workers that listen, with queues and
// without, and nothing else is.
func testPauseTold(t *testing.T, h Harness) {
	isPause := func(s driver.Signal) bool { return s.Pauses }
	for _, queues := range [][]string{{"q"}, nil} {
		signals := hear(t, h, fmt.Sprintf("w%d", len(queues)), queues)
		paused := false
		poll(t, "a signal once it listens", func() bool {
			paused = !paused
			pauseKinds(t, h, nil, paused, "k")
			return hears(signals, 100*time.Millisecond, isPause)
		})
		for hears(signals, 200*time.Millisecond, func(driver.Signal) bool { return true }) { // until it is quiet
		}
		for range 2 {
			paused = !paused
			pauseKinds(t, h, nil, paused, "k")
			if !hears(signals, patience, isPause) {
				t.Fatalf("Listen of the queues %q: not told of a pause within %v", queues, patience)
			}
		}
	}
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
	pauseKinds(t, h, nil, true, "k")
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
	pauseKinds(t, h, nil, false, "k")
	want("k")
	pauseKinds(t, h, nil, true, "k", "l") // all of the worker's kinds
	pauseKinds(t, h, nil, false, "k", "l")
	enqueue(t, h, newJob())
	want("k")
}
