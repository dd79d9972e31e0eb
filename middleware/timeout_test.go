package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

func ExampleTimeout() {
	slow := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		<-ctx.Done() // as a query would
		return errors.New("query cancelled")
	})
	handler := queue.Chain(slow, middleware.Timeout(time.Millisecond))
	err := handler.HandleJob(context.Background(), &queue.Job{})
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// middleware: Timeout after 1ms: context deadline exceeded: query cancelled
	// true
}

// basicSlow is a handler that returns err after d, whatever becomes of its context, and notes the
// context's cause by then.
func basicSlow(d time.Duration, err error, cause *error) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
		time.Sleep(d)
		*cause = context.Cause(ctx)
		return err
	})
}

// TestTimeoutError: an error after the deadline says so, and stays what it was.
func TestTimeoutError(t *testing.T) {
	own := fmt.Errorf("querying: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		name    string
		takes   time.Duration
		err     error
		wrapped bool
	}{
		{"in time", time.Second - 1, errBasic, false},
		{"late", time.Second + 1, errBasic, true},
		{"late, wrapped", time.Minute, basicWrap(errBasic), true},
		{"late, but done", time.Minute, nil, false},
		{"late, but settled", time.Minute, basicWrap(queue.ErrSettled), false},
		{"late, and says so", time.Minute, own, false},
		{"late, with an answer", time.Minute, queue.Discard(errBasic), true},
		{"late, snoozing", time.Minute, queue.Snooze(time.Hour), true},
		{"late, in an answer that says so", time.Minute, queue.Discard(own), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			h := middleware.Timeout(time.Second)(basicSlow(c.takes, c.err, &cause))
			err := h.HandleJob(t.Context(), basicJob(1))
			if late := c.takes > time.Second; late != basicSame(cause, context.DeadlineExceeded) {
				t.Errorf("%s: the handler's context ended with %v", c.name, cause)
			}
			if !c.wrapped {
				if !basicSame(err, c.err) {
					t.Errorf("%s: got %v, want %v as it is", c.name, err, c.err)
				}
			} else if basicSame(err, c.err) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, c.err) {
				t.Errorf("%s: got %v, want one that is %v and a timeout", c.name, err, c.err)
			}
		})
	}
}

// TestTimeoutKeepsVerdicts: what becomes of the job is the same with it as without.
func TestTimeoutKeepsVerdicts(t *testing.T) {
	for _, said := range []error{
		queue.ErrSettled, queue.Discard(errBasic), queue.RetryAfter(time.Minute, errBasic), queue.Snooze(time.Hour), nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			h := middleware.Timeout(time.Second)(basicSlow(time.Minute, said, &cause))
			err := h.HandleJob(t.Context(), basicJob(1))
			want, wantOK := queue.OutcomeOf(t.Context(), basicJob(1), said)
			got, ok := queue.OutcomeOf(t.Context(), basicJob(1), err)
			if got.Action != want.Action || got.Delay != want.Delay || ok != wantOK {
				t.Errorf("%v: got %v after %v (%v), want %v after %v (%v)", said, got.Action, got.Delay, ok, want.Action, want.Delay, wantOK)
			}
		})
	}
}

// TestTimeoutOuterFirst: it does not claim what ended the context that it got.
func TestTimeoutOuterFirst(t *testing.T) {
	outer := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"shutdown": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return basicEndsAfter(ctx, time.Second/2, queue.ErrShutdown)
		},
		"lost": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return basicEndsAfter(ctx, time.Second/2, queue.ErrLost)
		},
		"a cause that looks like a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return basicEndsAfter(ctx, time.Second/2, context.DeadlineExceeded)
		},
		"an earlier deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second/2)
		},
	}
	for name, end := range outer {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := end(t.Context())
			defer cancel()
			var cause error
			err := middleware.Timeout(time.Second)(basicSlow(time.Minute, errBasic, &cause)).HandleJob(ctx, basicJob(1))
			if !basicSame(err, errBasic) || !basicSame(cause, context.Cause(ctx)) {
				t.Errorf("%s: got %v, and a context that ended with %v", name, err, cause)
			}
		})
	}
}

// TestTimeoutOuterLater: what ends after the deadline does not hide it.
func TestTimeoutOuterLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		ctx, stop := basicEndsAfter(ctx, 2*time.Second, queue.ErrShutdown)
		defer stop()
		var cause error
		err := middleware.Timeout(time.Second)(basicSlow(time.Minute, errBasic, &cause)).HandleJob(ctx, basicJob(1))
		if !errors.Is(err, context.DeadlineExceeded) || !basicSame(cause, context.DeadlineExceeded) {
			t.Errorf("got %v, and a context that ended with %v, want a timeout", err, cause)
		}
	})
}

// basicEndsAfter is a context that a worker ends after d.
func basicEndsAfter(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// TestTimeoutPanickingErrors: an error that cannot be asked is its text.
func TestTimeoutPanickingErrors(t *testing.T) {
	for text, panicking := range basicPanicking {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			err := middleware.Timeout(time.Second)(basicSlow(time.Minute, panicking, &cause)).HandleJob(t.Context(), basicJob(1))
			want := "middleware: Timeout after 1s: context deadline exceeded: " + text
			if got := queue.ErrorText(err); !errors.Is(err, context.DeadlineExceeded) || got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestTimeoutMisuse(t *testing.T) {
	wantPanic(t, "Timeout: d 0s", func() { middleware.Timeout(0) })
	wantPanic(t, "Timeout: d -1s", func() { middleware.Timeout(-time.Second) })
}
