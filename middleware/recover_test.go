package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

func ExampleRecover() {
	handler := queue.Chain(
		queue.HandlerFunc(func(context.Context, *queue.Job) error {
			var seen []string
			return errors.New("not reached: " + seen[0]) // panics
		}),
		middleware.Retry(middleware.OnType[*queue.PanicError](2)), // a bug is tried once more
		middleware.Recover,
	)
	for attempt := 1; attempt <= 2; attempt++ {
		job := &queue.Job{Attempt: attempt, MaxAttempts: 5}
		outcome, _ := queue.OutcomeOf(context.Background(), job, handler.HandleJob(context.Background(), job))
		var p *queue.PanicError
		errors.As(outcome.Err, &p)
		fmt.Println(outcome.Action, p.Value)
	}
	// Output:
	// retry runtime error: index out of range [0] with length 0
	// dead runtime error: index out of range [0] with length 0
}

// basicPanics is a handler that panics, from a place that its stack shows.
func basicPanics(v any) queue.Handler {
	return queue.HandlerFunc(func(context.Context, *queue.Job) error { panic(v) })
}

func TestRecover(t *testing.T) {
	for _, v := range []any{"boom", errBasic, 42} {
		err := middleware.Recover(basicPanics(v)).HandleJob(t.Context(), basicJob(1))
		p, ok := any(err).(*queue.PanicError)
		if !ok || p.Value != v || !strings.Contains(string(p.Stack), "basicPanics") {
			t.Errorf("panic(%v): got %v, want a PanicError with that value and the handler's stack", v, err)
		}
	}
	for _, want := range []error{nil, errBasic} {
		if err := middleware.Recover(basicReturns(want)).HandleJob(t.Context(), basicJob(1)); !basicSame(err, want) {
			t.Errorf("got %v, want %v as it is", err, want)
		}
	}
}

// TestRecoverOnce: a panic that was recovered once, and panicked again, stays one.
func TestRecoverOnce(t *testing.T) {
	again := func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			panic(next.HandleJob(ctx, job))
		})
	}
	h := queue.Chain(basicPanics("boom"), middleware.Recover, again, middleware.Recover)
	err := h.HandleJob(t.Context(), basicJob(1))
	if p, ok := any(err).(*queue.PanicError); !ok || p.Value != "boom" {
		t.Errorf("got %v, want the PanicError of the first panic", err)
	}
	err = middleware.Recover(basicPanics((*queue.PanicError)(nil))).HandleJob(t.Context(), basicJob(1))
	if p, ok := errors.AsType[*queue.PanicError](err); !ok || !strings.Contains(string(p.Stack), "basicPanics") {
		t.Errorf("a nil *PanicError: got %v, want an error with a stack", err)
	}
}

// TestRecoverGoexit: what ends its goroutine has not panicked.
func TestRecoverGoexit(t *testing.T) {
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		h := middleware.Recover(queue.HandlerFunc(func(context.Context, *queue.Job) error {
			runtime.Goexit()
			return nil
		}))
		_ = h.HandleJob(context.Background(), basicJob(1))
		returned = true
	}()
	<-done
	if returned {
		t.Error("the goroutine went on after runtime.Goexit")
	}
}
