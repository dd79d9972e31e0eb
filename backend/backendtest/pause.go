package backendtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

var pauseCases = []testCase{
	{"kinds", hasPauser, testPauseKinds},
	{"in a transaction", hasPauser | hasTx, testPauseInTx},
	{"a bad kind", hasPauser, testPauseBad},
	{"a worker", hasPauser, testPauseWorker},
}

// wantPausedKinds checks which kinds are paused.
func wantPausedKinds(t *testing.T, h Harness, when string, want ...string) {
	t.Helper()
	pauser, _ := queue.As[queue.Pauser](h.Queue)
	kinds, err := pauser.PausedKinds(t.Context())
	if err != nil || !slices.Equal(kinds, want) {
		t.Fatalf("PausedKinds %s: got %q, error %v; want %q", when, kinds, err, want)
	}
}

func pauseKinds(t *testing.T, h Harness, db queue.DB, kinds ...string) {
	t.Helper()
	pauser, _ := queue.As[queue.Pauser](h.Queue)
	if err := pauser.PauseKinds(t.Context(), db, kinds...); err != nil {
		t.Fatalf("PauseKinds(%q): %v", kinds, err)
	}
}

func resumeKinds(t *testing.T, h Harness, db queue.DB, kinds ...string) {
	t.Helper()
	pauser, _ := queue.As[queue.Pauser](h.Queue)
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
	pauser, _ := queue.As[queue.Pauser](h.Queue)
	for _, kind := range []string{"", "ä", "\x00"} {
		wantInvalid(t, "PauseKinds", pauser.PauseKinds(t.Context(), nil, "k", kind), "Kind")
		wantInvalid(t, "ResumeKinds", pauser.ResumeKinds(t.Context(), nil, "k", kind), "Kind")
	}
	wantCanceled(t, "PauseKinds", pauser.PauseKinds(cancelled(t), nil, "k"))
	wantPausedKinds(t, h, "after bad kinds")
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
	go func() { done <- queue.Worker{Backend: h.Queue, Handler: mux, Queues: []string{"q"}}.Run(ctx) }()
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
