package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
)

// nilError is an error whose nil pointer cannot be used.
type nilError struct{ err error }

func (e *nilError) Error() string { return e.err.Error() }
func (e *nilError) Unwrap() error { return e.err }

func TestOutcomes(t *testing.T) {
	failed := errors.New("503")
	for _, c := range []struct {
		name        string
		err         error
		attempts    int // MaxAttempts; 0 means the default
		outcome     string
		errorType   string // "" means that the span is no error
		description string
	}{
		{"done", nil, 0, "done", "", ""},
		{"plain error", failed, 0, "retry", "*errors.errorString", "503"},
		{"last attempt", failed, 1, "dead", "*errors.errorString", "503"},
		{"retry after", queue.RetryAfter(time.Hour, &queue.InvalidError{Field: "F", Problem: "p"}), 0, "retry", "*queue.InvalidError", "queue: invalid F: p"},
		{"retry after the last", queue.RetryAfter(time.Hour, failed), 1, "dead", "*errors.errorString", "503"},
		{"discarded", fmt.Errorf("no: %w", queue.Discard(failed)), 0, "dead", "*errors.errorString", "no: 503"},
		{"snoozed", queue.Snooze(time.Hour), 1, "release", "", ""},
		{"settled", fmt.Errorf("by hand: %w", queue.ErrSettled), 0, "done", "", ""},
		{"error that cannot be asked", (*nilError)(nil), 0, "retry", "_OTHER", "*telemetry_test.nilError: its Error method panicked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, telemetry.Options{})
			job := newTask()
			job.MaxAttempts = c.attempts
			r.enqueue(t.Context(), job)
			r.drain(t.Context(), func(context.Context, *queue.Job) error { return c.err })

			s := r.span("process default")
			want := map[string]string{
				"messaging.system": "errand", "messaging.operation.name": "process", "messaging.operation.type": "process",
				"messaging.destination.name": "default", "messaging.message.id": "1", "messaging.client.id": "Drain",
				"errand.job.kind": "test.work", "errand.job.attempt": "1", "errand.job.outcome": c.outcome,
			}
			status, failedWith := codes.Unset, ""
			if c.errorType != "" {
				want["error.type"], status, failedWith = c.errorType, codes.Error, c.errorType+" "
			}
			wantAttrs(t, s, want)
			if s.Status.Code != status || s.Status.Description != c.description || s.SpanKind != trace.SpanKindConsumer {
				t.Errorf("span: got status %+v, kind %v; want %v %q, consumer", s.Status, s.SpanKind, status, c.description)
			}
			r.wantMetric("errand.job.outcomes", "test.work "+c.outcome+" default process 1")
			if got, want := r.metric("messaging.process.duration")[0], "test.work "+failedWith+"default process 1x"; !strings.HasPrefix(got, want) {
				t.Errorf("run time: got %q, want %q and the time", got, want)
			}
		})
	}
}

// What middleware wraps around an error does not hide its type.
func TestErrorTypeWithinMiddleware(t *testing.T) {
	failed := &queue.InvalidError{Field: "F", Problem: "p"}
	late := func(ctx context.Context, _ *queue.Job) error { <-ctx.Done(); return failed }
	for name, c := range map[string]struct {
		h    queue.HandlerFunc
		m    queue.Middleware
		want string
	}{
		"Backoff": {func(context.Context, *queue.Job) error { return fmt.Errorf("sending: %w", failed) },
			middleware.Backoff(middleware.Fixed{}), "*queue.InvalidError"},
		"Retry":   {func(context.Context, *queue.Job) error { return failed }, middleware.Retry(), "*queue.InvalidError"},
		"Timeout": {late, middleware.Timeout(time.Millisecond), "context.deadlineExceededError"},
		"Timeout and Backoff": {late, func(next queue.Handler) queue.Handler {
			return queue.Chain(next, middleware.Backoff(middleware.Fixed{}), middleware.Timeout(time.Millisecond))
		}, "context.deadlineExceededError"},
		"errors.Join": {func(context.Context, *queue.Job) error { return errors.Join(failed, errors.New("too")) },
			queue.Middleware(func(next queue.Handler) queue.Handler { return next }), "*queue.InvalidError"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, telemetry.Options{})
			r.enqueue(t.Context(), newTask())
			r.drain(t.Context(), queue.Chain(c.h, c.m).HandleJob)
			if got := values(r.span("process default").Attributes)["error.type"]; got != c.want {
				t.Errorf("error.type: got %q, want %q", got, c.want)
			}
		})
	}
}

// One request is one trace, with what its job does and enqueues in turn.
func TestProcessIsPartOfTheTrace(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	ctx, request := r.tracer.Start(t.Context(), "request")
	r.enqueue(ctx, newTask())
	request.End()
	r.drain(t.Context(), func(ctx context.Context, job *queue.Job) error {
		ctx, span := r.tracer.Start(ctx, "query")
		defer span.End()
		if job.Kind == "test.work" {
			r.enqueue(ctx, &queue.Job{Kind: "test.next", Queue: "next"})
		}
		return nil
	})

	enqueue, process := r.span("enqueue default"), r.span("process default")
	wantChild(t, enqueue, r.span("request"))
	wantChild(t, process, enqueue)
	wantLinks(t, process, enqueue)
	wantChild(t, r.named("query")[0], process)
	wantChild(t, r.span("enqueue next"), r.named("query")[0])
	wantChild(t, r.span("process next"), r.span("enqueue next"))
}

// A worker that runs in a span is linked to from the runs.
func TestProcessWithinASpan(t *testing.T) {
	for _, c := range []struct {
		name               string
		newTraces, brought bool // whether the job brings a creation context
	}{
		{"child", false, true}, {"new trace", true, true},
		{"child without context", false, false}, {"new trace without context", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, telemetry.Options{NewTraces: c.newTraces})
			q := queue.Enqueuer(r.memory)
			if c.brought {
				q = r.queue
			}
			if err := q.Enqueue(t.Context(), nil, newTask()); err != nil {
				t.Fatal(err)
			}
			ctx, around := r.tracer.Start(t.Context(), "worker")
			r.drain(ctx, func(context.Context, *queue.Job) error { return nil })
			around.End()

			s, worker := r.span("process default"), r.span("worker")
			switch {
			case c.brought && c.newTraces:
				wantRoot(t, s)
				wantLinks(t, s, r.span("enqueue default"), worker)
			case c.brought:
				wantChild(t, s, r.span("enqueue default"))
				wantLinks(t, s, r.span("enqueue default"), worker)
			case c.newTraces:
				wantRoot(t, s)
				wantLinks(t, s, worker)
			default:
				wantChild(t, s, worker)
				wantLinks(t, s)
			}
		})
	}
}

func TestPanicIsRecordedAndPassedOn(t *testing.T) {
	for _, c := range []struct {
		name    string
		value   any
		outcome string
	}{
		{"text", "boom", "retry"}, {"error", errors.New("boom"), "retry"}, {"answer", queue.Discard(errors.New("boom")), "dead"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, telemetry.Options{})
			h := r.Handler(queue.HandlerFunc(func(context.Context, *queue.Job) error { panic(c.value) }))
			defer func() {
				if got := recover(); got != c.value {
					t.Errorf("panic: got %v, want %v", got, c.value)
				}
				s := r.span("process default")
				if s.Status.Code != codes.Error || s.Status.Description != "panic: boom" || values(s.Attributes)["error.type"] != "panic" {
					t.Errorf("span: got status %+v and %v, want an error of type panic", s.Status, s.Attributes)
				}
				if len(s.Events) != 1 || !strings.Contains(values(s.Events[0].Attributes)["exception.stacktrace"], "handler_test.go") {
					t.Errorf("events: got %v, want one with the stack", s.Events)
				}
				r.wantMetric("errand.job.outcomes", "k "+c.outcome+" default process 1")
			}()
			_ = h.HandleJob(t.Context(), &queue.Job{Kind: "k", Attempt: 1, MaxAttempts: 5})
		})
	}
}

func TestGoexitEndsTheSpan(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	h := r.Handler(queue.HandlerFunc(func(context.Context, *queue.Job) error { runtime.Goexit(); return nil }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.HandleJob(t.Context(), &queue.Job{Kind: "k", Attempt: 1, MaxAttempts: 5})
	}()
	<-done
	if s := r.span("process default"); s.Status.Code != codes.Error {
		t.Errorf("status: got %+v, want an error", s.Status)
	}
	r.wantMetric("errand.job.outcomes", "k retry default process 1")
}

// Whatever the handler makes of it, the span of a run whose job was lost says so.
func TestLostRun(t *testing.T) {
	for _, c := range []struct {
		name, outcome string
		err           error
	}{
		{"done all the same", "done", nil}, {"its context's end", "retry", context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, telemetry.Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			h := r.Handler(queue.HandlerFunc(func(context.Context, *queue.Job) error {
				cancel(queue.ErrLost)
				return c.err
			}))
			if err := h.HandleJob(ctx, &queue.Job{Kind: "k", Attempt: 1, MaxAttempts: 5}); !errors.Is(err, c.err) {
				t.Errorf("error: got %v, want %v", err, c.err)
			}
			s := r.span("process default")
			attrs := values(s.Attributes)
			if attrs["errand.job.lost"] != "true" || attrs["errand.job.outcome"] != c.outcome {
				t.Errorf("attributes: got %v, want lost, and outcome %s", attrs, c.outcome)
			}
			if s.Status.Code != codes.Error || s.Status.Description != queue.ErrLost.Error() {
				t.Errorf("status: got %+v, want that the job was lost", s.Status)
			}
		})
	}
}

// Latency counts from when a job was both there and due.
func TestLatency(t *testing.T) {
	for _, c := range []struct {
		name string
		job  queue.Job
		want string
	}{
		{"at once", queue.Job{Kind: "k"}, "k default process 1x60"},
		{"after a delay", queue.Job{Kind: "k", Delay: 20 * time.Second}, "k default process 1x40"},
		{"due long ago", queue.Job{Kind: "k", ScheduledAt: time.Unix(0, 0)}, "k default process 1x60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, telemetry.Options{})
				r.enqueue(t.Context(), &c.job)
				time.Sleep(time.Minute)
				r.drain(t.Context(), func(context.Context, *queue.Job) error {
					time.Sleep(2 * time.Second)
					return nil
				})
				r.wantMetric("errand.job.latency", c.want)
				r.wantMetric("messaging.process.duration", "k default process 1x2")
			})
		})
	}
}

// The database's clock may be ahead, and a job made by hand has no times.
func TestLatencyOfOddTimes(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	h := r.Handler(queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
	for _, job := range []*queue.Job{
		{Kind: "ahead", CreatedAt: time.Now().Add(time.Hour)}, {Kind: "by hand"},
	} {
		if err := h.HandleJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	r.wantMetric("errand.job.latency", "ahead default process 1x0")
}

// A worker that sees a job settled by its handler may take it for lost. It is not.
func TestSettledIsNotLost(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	h := r.Handler(queue.HandlerFunc(func(context.Context, *queue.Job) error {
		cancel(queue.ErrLost)
		return queue.ErrSettled
	}))
	if err := h.HandleJob(ctx, &queue.Job{Kind: "k", Attempt: 1}); !errors.Is(err, queue.ErrSettled) {
		t.Errorf("error: got %v, want %v", err, queue.ErrSettled)
	}
	if s := r.span("process default"); s.Status.Code != codes.Unset || values(s.Attributes)["errand.job.lost"] != "" {
		t.Errorf("span: got status %+v, %v; want no error and nothing lost", s.Status, s.Attributes)
	}
}

func TestHandlerUnwraps(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	mux := queue.NewMux()
	if got, ok := queue.MuxOf(r.Handler(mux)); !ok || got != mux {
		t.Errorf("Mux behind the handler: got %v, %v, want it", got, ok)
	}
}
