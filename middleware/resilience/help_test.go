package resilience_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

var errDown = errors.New("connection refused")

// returns is a handler that returns err.
func returns(err error) queue.Handler {
	return queue.HandlerFunc(func(context.Context, *queue.Job) error { return err })
}

func newJob(kind string) *queue.Job { return &queue.Job{Kind: kind, Attempt: 1, MaxAttempts: 5} }

// once runs a job of the kind in middleware around handler, and returns its error.
func once(t *testing.T, m queue.Middleware, kind string, h queue.Handler) error {
	t.Helper()
	return m(h).HandleJob(t.Context(), newJob(kind))
}

// wantRan checks that the handler ran, by the error that it returned.
func wantRan(t *testing.T, what string, m queue.Middleware, kind string, want error) {
	t.Helper()
	if got := once(t, m, kind, returns(want)); !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want the handler's: %v", what, got, want)
	}
}

// wantSnoozed checks that a job is put off for a time in that range, without being run.
func wantSnoozed(t *testing.T, what string, m queue.Middleware, kind string, least, most time.Duration) {
	t.Helper()
	err := once(t, m, kind, queue.HandlerFunc(func(context.Context, *queue.Job) error {
		t.Errorf("%s: the handler was run", what)
		return nil
	}))
	if d := snoozed(t, what, err); d < least || d > most {
		t.Errorf("%s: snoozed for %v, want %v to %v", what, d, least, most)
	}
}

// snoozed is how long err puts its job off.
func snoozed(t *testing.T, what string, err error) time.Duration {
	t.Helper()
	o, ok := queue.OutcomeOf(t.Context(), newJob("any"), err)
	if !ok || o.Action != queue.Release {
		t.Fatalf("%s: got %v (error %v), want a snooze", what, o.Action, err)
	}
	return o.Delay
}

// held is a job whose handler is running until it is told what to return.
type held struct {
	say  chan error
	done chan struct{} // closed when the job has returned
}

// hold starts a job whose handler waits, and returns when it does.
func hold(t *testing.T, m queue.Middleware, kind string) *held {
	t.Helper()
	h := &held{say: make(chan error), done: make(chan struct{})}
	began := false
	go func() {
		defer close(h.done)
		_ = m(queue.HandlerFunc(func(context.Context, *queue.Job) error {
			began = true
			return <-h.say
		})).HandleJob(t.Context(), newJob(kind))
	}()
	synctest.Wait()
	if !began {
		t.Fatalf("a job of kind %s that should run did not", kind)
	}
	return h
}

// end lets the handler return err, and waits until the job has.
func (h *held) end(err error) {
	h.say <- err
	<-h.done
}

// ended is a context that has ended with that cause.
func ended(t *testing.T, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	return ctx
}

// wantPanic checks that f panics with that text.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic: got %v, want %q", got, want)
		}
	}()
	f()
}

// runWorker runs h on the jobs of q until none is left, but for at most an hour, and returns how
// long that took.
func runWorker(t *testing.T, q *queuetest.Queue, h queue.Handler, concurrency int) time.Duration {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	w := engine.Worker{Backend: q, Handler: h, Concurrency: concurrency, Logger: slog.New(slog.DiscardHandler)}
	from := time.Now()
	var run sync.WaitGroup
	run.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for left(t, q) > 0 && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(from)
	stop()
	run.Wait()
	return took
}

// left is how many jobs are pending or running.
func left(t *testing.T, q *queuetest.Queue) (n int) {
	t.Helper()
	counts, err := q.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Status == queue.StatusPending || c.Status == queue.StatusRunning {
			n += int(c.Jobs)
		}
	}
	return n
}

// attempts checks that all jobs are completed, and returns how many attempts that took.
func attempts(t *testing.T, q *queuetest.Queue) (n int) {
	t.Helper()
	records, _, err := q.Jobs(t.Context(), queue.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Status != queue.StatusCompleted {
			t.Errorf("job %d: got %s after attempt %d, want completed", r.ID, r.Status, r.Attempt)
		}
		n += r.Attempt
	}
	return n
}

// enqueue enqueues n jobs of the kind.
func enqueue(t *testing.T, q *queuetest.Queue, kind string, n int) {
	t.Helper()
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = &queue.Job{Kind: kind}
	}
	if err := q.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
}
