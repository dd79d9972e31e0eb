package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func ExampleRetry() {
	errBusy := errors.New("mail server is busy")
	handler := queue.Chain(
		queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error { return fmt.Errorf("sending: %w", errBusy) }),
		middleware.Retry(
			middleware.On(errBusy, 3),
			middleware.On(context.DeadlineExceeded, 0), // as often as MaxAttempts allows
			middleware.OnType[*queue.PanicError](2),
			middleware.OnFunc(func(err error) bool {
				var temporary interface{ Temporary() bool }
				return errors.As(err, &temporary) && temporary.Temporary()
			}, 10),
		), // and what no rule matches is dead at once
		middleware.Recover,
	)
	for attempt := 1; attempt <= 3; attempt++ {
		job := &queue.Job{Attempt: attempt, MaxAttempts: 5}
		outcome, _ := queue.OutcomeOf(context.Background(), job, handler.HandleJob(context.Background(), job))
		fmt.Println(attempt, outcome.Action, outcome.Err)
	}
	// Output:
	// 1 retry sending: mail server is busy
	// 2 retry sending: mail server is busy
	// 3 dead sending: mail server is busy
}

func ExampleOnType() {
	handler := queue.Chain(
		queue.HandlerFunc(func(context.Context, *queue.Job) error { return errors.New("no such user") }),
		middleware.Retry(
			middleware.OnType[*fs.PathError](1), // never again
			middleware.OnType[error](2),         // any other: twice in all
		),
	)
	for attempt := 1; attempt <= 2; attempt++ {
		job := &queue.Job{Attempt: attempt, MaxAttempts: 5}
		outcome, _ := queue.OutcomeOf(context.Background(), job, handler.HandleJob(context.Background(), job))
		fmt.Println(attempt, outcome.Action)
	}
	// Output:
	// 1 retry
	// 2 dead
}

// All errors but these are retried.
func ExampleOnFunc() {
	errNoUser, errNoAddress := errors.New("no such user"), errors.New("no address")
	retry := middleware.Retry(middleware.OnFunc(func(err error) bool {
		return !errors.Is(err, errNoUser) && !errors.Is(err, errNoAddress)
	}, 0))
	for _, failure := range []error{errors.New("connection reset"), errNoUser} {
		handler := queue.Chain(queue.HandlerFunc(func(context.Context, *queue.Job) error { return failure }), retry)
		job := &queue.Job{Attempt: 1, MaxAttempts: 5}
		outcome, _ := queue.OutcomeOf(context.Background(), job, handler.HandleJob(context.Background(), job))
		fmt.Println(outcome.Action, outcome.Err)
	}
	// Output:
	// retry connection reset
	// dead no such user
}

// basicRules are what the tests below retry by.
var basicRules = []middleware.Rule{
	middleware.On(errBasic, 3),
	middleware.OnType[*fs.PathError](0),
	middleware.OnFunc(func(err error) bool { return errors.Is(err, errBasicOther) || errors.Is(err, errBasic) }, 1),
	middleware.On(context.DeadlineExceeded, 2),
	middleware.On(errBasic, 0), // never reached
}

// basicCases are what a handler may return, and what Retry(basicRules...) makes of it at an
// attempt; the delays of plain errors are Backoff's.
var basicCases = []struct {
	name    string
	err     error
	attempt int
	action  queue.OutcomeAction
	delay   time.Duration // where the handler's error says it
}{
	{"On, first", basicWrap(errBasic), 1, queue.Retry, 0},
	{"On, last but one", basicWrap(errBasic), 2, queue.Retry, 0},
	{"On, last", basicWrap(errBasic), 3, queue.Dead, 0},
	{"On, beyond", errBasic, 4, queue.Dead, 0},
	{"OnType without limit", basicWrap(&fs.PathError{Err: errBasicOther}), 9, queue.Retry, 0},
	{"OnType, last of MaxAttempts", &fs.PathError{Err: errBasicOther}, 10, queue.Dead, 0},
	{"OnFunc, once", basicWrap(errBasicOther), 1, queue.Dead, 0},
	{"the first rule that matches", errors.Join(errBasicOther, errBasic), 1, queue.Retry, 0},
	{"no rule", basicWrap(errors.New("unheard of")), 1, queue.Dead, 0},
	{"a timeout", context.DeadlineExceeded, 1, queue.Retry, 0},
	{"RetryAfter of what no rule matches", basicWrap(queue.RetryAfter(time.Minute, errors.New("x"))), 9, queue.Retry, time.Minute},
	{"Discard of what a rule matches", basicWrap(queue.Discard(errBasic)), 1, queue.Dead, 0},
	{"Snooze", basicWrap(queue.Snooze(time.Hour)), 10, queue.Release, time.Hour},
	{"nil", nil, 1, queue.Done, 0},
}

func TestRetry(t *testing.T) {
	for _, c := range basicCases {
		err := middleware.Retry(basicRules...)(basicReturns(c.err)).HandleJob(t.Context(), basicJob(c.attempt))
		o, ok := queue.OutcomeOf(t.Context(), basicJob(c.attempt), err)
		if !ok || o.Action != c.action || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v with %v, want %v with %v", c.name, o.Action, err, c.action, c.err)
		}
		if _, said := queue.ActionOf(c.err); said && !basicSame(err, c.err) {
			t.Errorf("%s: got %v, want the answer as it is", c.name, err)
		}
	}
	if err := middleware.Retry()(basicReturns(queue.ErrSettled)).HandleJob(t.Context(), basicJob(1)); !basicSame(err, queue.ErrSettled) {
		t.Errorf("ErrSettled: got %v, want it as it is", err)
	}
}

// TestRetryAndBackoff: in either order they come to the same.
func TestRetryAndBackoff(t *testing.T) {
	const delay = 42 * time.Second
	retry := middleware.Retry(basicRules...)
	backoff := middleware.Backoff(middleware.Fixed{Base: delay, Jitter: middleware.NoJitter})
	between := func(next queue.Handler) queue.Handler { // Backoff's mark is found through wrapping
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			if err := next.HandleJob(ctx, job); err != nil {
				return basicWrap(err)
			}
			return nil
		})
	}
	for order, middlewares := range map[string][]queue.Middleware{
		"Retry outside":                      {retry, backoff},
		"Retry outside, with one in between": {retry, between, backoff},
		"Backoff outside":                    {backoff, retry},
		"Backoff on both sides":              {backoff, retry, backoff},
	} {
		for _, c := range basicCases {
			want := c.delay
			if _, said := queue.ActionOf(c.err); !said && c.action == queue.Retry {
				want = delay
			}
			err := queue.Chain(basicReturns(c.err), middlewares...).HandleJob(t.Context(), basicJob(c.attempt))
			o, ok := queue.OutcomeOf(t.Context(), basicJob(c.attempt), err)
			if !ok || o.Action != c.action || o.Delay != want || !errors.Is(err, c.err) {
				t.Errorf("%s: %s: got %v after %v with %v, want %v after %v", order, c.name, o.Action, o.Delay, err, c.action, want)
			}
		}
	}
}

// TestRetryLaterAnswer: an answer that another middleware gave to what Backoff has delayed is not
// Retry's to change.
func TestRetryLaterAnswer(t *testing.T) {
	snoozing := func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			return errors.Join(queue.Snooze(time.Hour), next.HandleJob(ctx, job))
		})
	}
	h := queue.Chain(basicReturns(errBasicOther), middleware.Retry(), snoozing, middleware.Backoff(middleware.Fixed{}))
	if action, _ := queue.ActionOf(h.HandleJob(t.Context(), basicJob(1))); action != queue.Release {
		t.Errorf("got %v, want release", action)
	}
}

// TestRetryInAQueue: the job goes back to the table between attempts, waits there as long as
// Backoff says, and is dead when Retry says.
func TestRetryInAQueue(t *testing.T) {
	retry := middleware.Retry(middleware.On(errBasic, 3))
	backoff := middleware.Backoff(middleware.Linear{Base: time.Minute, Jitter: middleware.NoJitter})
	for order, chain := range map[string]queue.Handler{
		"Retry outside":   queue.Chain(basicReturns(errBasic), retry, backoff),
		"Backoff outside": queue.Chain(basicReturns(errBasic), backoff, retry),
	} {
		synctest.Test(t, func(t *testing.T) {
			q := queuetest.New(queuetest.Options{})
			job := &queue.Job{Kind: "mail", MaxAttempts: 10}
			if err := q.Enqueue(t.Context(), nil, job); err != nil {
				t.Fatal(err)
			}
			want := func(status queue.Status, attempt int) {
				t.Helper()
				if _, err := q.Drain(t.Context(), chain); err != nil {
					t.Fatal(err)
				}
				r, _, err := q.Job(t.Context(), job.ID)
				if err != nil || r.Status != status || r.Attempt != attempt || r.LastError != errBasic.Error() {
					t.Errorf("%s: got %s after attempt %d with %q (%v), want %s after %d", order, r.Status, r.Attempt, r.LastError, err, status, attempt)
				}
			}
			want(queue.StatusPending, 1)
			time.Sleep(time.Minute - 1)
			want(queue.StatusPending, 1)
			time.Sleep(time.Nanosecond)
			want(queue.StatusPending, 2)
			time.Sleep(2 * time.Minute)
			want(queue.StatusDead, 3)
		})
	}
}

// TestEndedByWorker: what a handler says whose context the worker has ended is not taken for a
// failure, unless it is an answer.
func TestEndedByWorker(t *testing.T) {
	for _, cause := range []error{queue.ErrShutdown, queue.ErrLost} {
		for name, m := range map[string]queue.Middleware{
			"Retry": middleware.Retry(), "Backoff": middleware.Backoff(middleware.Fixed{}),
		} {
			ctx := basicEnded(t, cause)
			for _, said := range []error{context.Canceled, errBasic, queue.Discard(errBasic)} {
				if err := m(basicReturns(said)).HandleJob(ctx, basicJob(1)); !basicSame(err, said) {
					t.Errorf("%s, after %v: got %v, want %v as it is", name, cause, err, said)
				}
			}
		}
	}
	ctx := basicEnded(t, errBasicOther) // a cancellation that is nobody's business
	if action, _ := queue.ActionOf(middleware.Retry()(basicReturns(errBasic)).HandleJob(ctx, basicJob(1))); action != queue.Dead {
		t.Errorf("after another cancellation: got %v, want dead", action)
	}
}

// TestShutdownThroughChain: a job whose handler a shutdown has ended costs no attempt and waits for
// nothing, although Retry knows no such error.
func TestShutdownThroughChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		job := &queue.Job{Kind: "mail"}
		if err := q.Enqueue(t.Context(), nil, job); err != nil {
			t.Fatal(err)
		}
		waiting := queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			return fmt.Errorf("querying: %w", ctx.Err())
		})
		logger, _ := basicLog(slog.LevelError)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := engine.Worker{Backend: q, Grace: time.Second, Logger: logger, Handler: queue.Chain(waiting,
			middleware.Log(logger), middleware.Retry(), middleware.Backoff(middleware.Fixed{}),
			middleware.Recover, middleware.Timeout(time.Hour))}.Run(ctx)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		r, _, err := q.Job(t.Context(), job.ID)
		if err != nil || r.Status != queue.StatusPending || r.Attempt != 0 || r.ScheduledAt.After(time.Now()) {
			t.Errorf("got %s after attempt %d, due at %v (%v), want pending after 0, due now", r.Status, r.Attempt, r.ScheduledAt, err)
		}
	})
}

// TestRetryPanickingErrors: an error that cannot be asked is its text.
func TestRetryPanickingErrors(t *testing.T) {
	never := middleware.On(errBasic, 0)
	always := middleware.OnType[error](0)
	for text, panicking := range basicPanicking {
		for rule, want := range map[*middleware.Rule]queue.OutcomeAction{&never: queue.Dead, &always: queue.Retry} {
			err := middleware.Retry(*rule)(basicReturns(panicking)).HandleJob(t.Context(), basicJob(1))
			o, ok := queue.OutcomeOf(t.Context(), basicJob(1), err)
			if !ok || o.Action != want || queue.ErrorText(o.Err) != text {
				t.Errorf("%s: got %v with %q, want %v", text, o.Action, queue.ErrorText(o.Err), want)
			}
		}
	}
}

func TestRetryMisuse(t *testing.T) {
	fine := middleware.On(errBasic, 0)
	wantPanic(t, "rules[1] matches nothing", func() { middleware.Retry(fine, middleware.Rule{}) })
	wantPanic(t, "rules[0] matches nothing", func() { middleware.Retry(middleware.On(nil, 1)) })
	wantPanic(t, "rules[0] matches nothing", func() { middleware.Retry(middleware.OnFunc(nil, 1)) })
	wantPanic(t, "rules[1]: attempts -1", func() { middleware.Retry(fine, middleware.OnType[*fs.PathError](-1)) })
	wantPanic(t, "bug in match", func() { // is not hidden, and makes no job dead
		bad := middleware.OnFunc(func(error) bool { panic("bug in match") }, 0)
		_ = middleware.Retry(bad)(basicReturns(errBasic)).HandleJob(t.Context(), basicJob(1))
	})
}
