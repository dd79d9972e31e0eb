package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestCancelRunning: a job that is cancelled through one gateway ends the context of its handler,
// which runs behind a different one.
func TestCancelRunning(t *testing.T) {
	m := memory.New(memory.Options{})
	url, _ := serve(t, m, often)
	other, _ := serve(t, m, often)
	started, cause := make(chan int64, 1), make(chan error, 1)
	handler := queue.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
		started <- j.ID
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	end := runWorker(t, engine.Worker{Backend: connect(t, other), Handler: handler, Lease: time.Second})
	defer end()
	q := connect(t, url)
	if err := q.Enqueue(t.Context(), nil, job("k")); err != nil {
		t.Fatal(err)
	}
	if n, err := q.Cancel(t.Context(), nil, queue.Selection{IDs: []int64{<-started}}); n != 1 || err != nil {
		t.Fatalf("Cancel: %d jobs, %v", n, err)
	}
	if err := within(t, cause); !errors.Is(err, queue.ErrCancelled) {
		t.Errorf("the handler's context ended with %v, want ErrCancelled", err)
	}
}

// runWorker runs a worker of the queue "q" until end is called.
func runWorker(t *testing.T, w engine.Worker) (end func()) {
	t.Helper()
	w.Queues, w.Logger = []string{"q"}, slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// within receives from c, unless it takes longer than patience.
func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing has come")
	}
	return v
}

// TestOnDead: a worker's OnDead is called for a job whose worker has crashed in its last attempt,
// whichever gateway has reclaimed it.
func TestOnDead(t *testing.T) {
	m := memory.New(memory.Options{})
	url, _ := serve(t, queueWithoutReclaim{m}, often)
	reclaims, _ := serve(t, m, often)
	last := job("k")
	last.MaxAttempts = 1
	q := connect(t, url, reclaims)
	if err := q.Enqueue(t.Context(), nil, last); err != nil {
		t.Fatal(err)
	}
	req := queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: 10 * time.Millisecond, Worker: "crashes"}
	if jobs, err := q.Claim(t.Context(), req); err != nil || len(jobs) != 1 {
		t.Fatalf("Claim: %d jobs, %v", len(jobs), err)
	}
	dead := make(chan int64, 10)
	end := runWorker(t, engine.Worker{
		Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }), Lease: 200 * time.Millisecond,
		OnDead: func(_ context.Context, j *queue.Job, _ error) { dead <- j.ID },
	})
	if id := within(t, dead); id != last.ID {
		t.Errorf("OnDead of job %d, want %d", id, last.ID)
	}
	end()
	if len(dead) != 0 {
		t.Errorf("OnDead was called again, for job %d", <-dead)
	}
}

// TestDeathsBesideSilent: a gateway that does not answer keeps only one call from asking the
// others.
func TestDeathsBesideSilent(t *testing.T) {
	silent, arrived := serveSilent(t)
	url, f := serveFaulty(t, memory.New(memory.Options{}))
	q := connect(t, silent, url)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := q.Deaths(ctx, []string{"q"}); !errors.Is(err, context.DeadlineExceeded) || f.asked.Load() != 0 {
		t.Errorf("first call: got %v, and %d requests to the gateway that answers", err, f.asked.Load())
	}
	<-arrived
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := q.Deaths(ctx, []string{"q"}); !errors.Is(err, context.Canceled) || f.asked.Load() != 1 {
		t.Errorf("next call: got %v, and %d requests to the gateway that answers, want one", err, f.asked.Load())
	}
}

// queueWithoutReclaim is a queue that does not reclaim jobs.
type queueWithoutReclaim struct{ queue.Queue }

// TestRules: a client can read the rules and the paused kinds, and is told that it cannot set them.
func TestRules(t *testing.T) {
	m := memory.New(memory.Options{})
	want := queue.Rule{Queue: "q", Running: 3, GroupRate: queue.Rate{Jobs: 5, Per: time.Minute}}
	_, paused := m.Pause(t.Context(), nil, queue.Target{Kind: "k"}, true)
	if err := errors.Join(m.SetRules(t.Context(), nil, want), paused); err != nil {
		t.Fatal(err)
	}
	url, _ := serve(t, m, often)
	q := connect(t, url)
	if rules, err := q.Rules(t.Context()); err != nil || !slices.Equal(rules, []queue.Rule{want}) {
		t.Errorf("Rules: got %+v, error %v; want %+v", rules, err, want)
	}
	if kinds, err := q.PausedKinds(t.Context()); err != nil || !slices.Equal(kinds, []string{"k"}) {
		t.Errorf("PausedKinds: got %q, error %v; want k", kinds, err)
	}
	_, isRuler := driver.As[driver.Ruler](q)
	_, isPauser := driver.As[driver.Pauser](q)
	_, isEditor := driver.As[driver.Editor](q)
	_, isScheduler := driver.As[driver.Scheduler](q)
	_, isStatistician := driver.As[driver.Statistician](q)
	if isRuler || isPauser || isEditor || isScheduler || isStatistician {
		t.Error("a Queue behind a gateway says that it can do more than docs/remote.md says")
	}
}
