package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/errandhq/errand/queue"
)

var errPlain = errors.New("plain")

func TestOutcomeOf(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("sending: %w", errors.Join(errors.New("also this"), err)) }
	for _, c := range []struct {
		name    string
		err     error
		attempt int
		action  queue.OutcomeAction
		delay   time.Duration
	}{
		{"nil", nil, 1, queue.Done, 0},
		{"RetryAfter", queue.RetryAfter(time.Minute, errPlain), 1, queue.Retry, time.Minute},
		{"RetryAfter, wrapped", wrap(queue.RetryAfter(time.Minute, errPlain)), 1, queue.Retry, time.Minute},
		{"RetryAfter, negative", queue.RetryAfter(-time.Minute, errPlain), 1, queue.Retry, 0},
		{"RetryAfter, last attempt", queue.RetryAfter(time.Minute, errPlain), 5, queue.Dead, 0},
		{"Discard", queue.Discard(errPlain), 1, queue.Dead, 0},
		{"Discard, wrapped", wrap(queue.Discard(errPlain)), 1, queue.Dead, 0},
		{"Snooze", queue.Snooze(time.Hour), 1, queue.Release, time.Hour},
		{"Snooze for no time", queue.Snooze(0), 1, queue.Release, time.Microsecond},
		{"Snooze, negative", queue.Snooze(-time.Hour), 1, queue.Release, time.Microsecond},
		{"Snooze, last attempt", wrap(queue.Snooze(time.Hour)), 5, queue.Release, time.Hour},
		{"plain, last attempt", errPlain, 5, queue.Dead, 0},
	} {
		job := &queue.Job{Attempt: c.attempt, MaxAttempts: 5}
		o, ok := queue.OutcomeOf(t.Context(), job, c.err)
		if !ok || o.Job != job || o.Action != c.action || o.Delay != c.delay {
			t.Errorf("%s: got %v after %v (%v), want %v after %v", c.name, o.Action, o.Delay, ok, c.action, c.delay)
		}
	}
	if _, ok := queue.OutcomeOf(t.Context(), &queue.Job{}, wrap(queue.ErrSettled)); ok {
		t.Error("ErrSettled, wrapped: there is an outcome, want none")
	}
	if o, _ := queue.OutcomeOf(t.Context(), &queue.Job{Attempt: 1}, wrap(queue.RetryAfter(0, errPlain))); !errors.Is(o.Err, errPlain) {
		t.Errorf("the outcome's error is %v, want one that is the handler's", o.Err)
	}
}

// TestAnswerWithoutError: an answer that was given no error has a text that a person can read.
func TestAnswerWithoutError(t *testing.T) {
	for _, c := range []struct {
		answer error
		want   string
	}{
		{queue.Discard(nil), "queue: discarded without an error"},
		{queue.RetryAfter(time.Minute, nil), "queue: failed without an error, retry after 1m0s"},
		{queue.RetryAfter(-time.Minute, nil), "queue: failed without an error, retry after 0s"},
		{queue.Snooze(time.Hour), "queue: snoozed for 1h0m0s"},
		{queue.Snooze(-time.Hour), "queue: snoozed for 0s"},
	} {
		o, _ := queue.OutcomeOf(t.Context(), &queue.Job{Attempt: 1, MaxAttempts: 5}, c.answer)
		if got := queue.ErrorText(o.Err); got != c.want {
			t.Errorf("%v: got the text %q, want %q", o.Action, got, c.want)
		}
	}
}

func TestOutcomeOfPlainError(t *testing.T) {
	o, ok := queue.OutcomeOf(t.Context(), &queue.Job{Attempt: 2, MaxAttempts: 5}, errPlain)
	if !ok || o.Action != queue.Retry || o.Delay < time.Minute || o.Delay > 78*time.Second {
		t.Errorf("a plain error of attempt 2: %v after %v, want retry after 60 to 78 s", o.Action, o.Delay)
	}
	// A lease that could not be extended costs an attempt, as a crash does: otherwise a job whose
	// handler keeps the worker from extending would run for ever.
	for cause, want := range map[error][2]queue.OutcomeAction{queue.ErrShutdown: {queue.Release, queue.Release}, queue.ErrLost: {queue.Retry, queue.Dead}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for i, attempt := range []int{4, 5} {
			o, _ := queue.OutcomeOf(ctx, &queue.Job{Attempt: attempt, MaxAttempts: 5}, context.Canceled)
			if o.Action != want[i] || o.Action == queue.Release && o.Delay != 0 || errors.Is(o.Err, queue.ErrLost) != errors.Is(cause, queue.ErrLost) {
				t.Errorf("attempt %d after %v: %v after %v, %v; want %v", attempt, cause, o.Action, o.Delay, o.Err, want[i])
			}
		}
		if o, _ := queue.OutcomeOf(ctx, &queue.Job{}, queue.Discard(errPlain)); o.Action != queue.Dead {
			t.Errorf("an answer after %v: %v, want dead", cause, o.Action)
		}
	}
}

// TestActionOf: ActionOf reads the error alone, whatever the attempts and the context are.
func TestActionOf(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("sending: %w", errors.Join(errors.New("also this"), err)) }
	for _, c := range []struct {
		name   string
		err    error
		action queue.OutcomeAction
		ok     bool
	}{
		{"nil", nil, queue.Done, true},
		{"Settled", wrap(queue.ErrSettled), queue.Done, true},
		{"RetryAfter", wrap(queue.RetryAfter(time.Minute, errPlain)), queue.Retry, true},
		{"Discard", wrap(queue.Discard(errPlain)), queue.Dead, true},
		{"Snooze", wrap(queue.Snooze(time.Hour)), queue.Release, true},
		{"the outermost of two", queue.Discard(queue.RetryAfter(time.Minute, errPlain)), queue.Dead, true},
		{"plain", wrap(errPlain), queue.Retry, false},
		{"plain, the worker's cancellation", queue.ErrShutdown, queue.Retry, false},
		{"panicking", (*nilError)(nil), queue.Retry, false},
	} {
		if action, ok := queue.ActionOf(c.err); action != c.action || ok != c.ok {
			t.Errorf("%s: got %v, %v, want %v, %v", c.name, action, ok, c.action, c.ok)
		}
	}
}

// nilError is an error whose Unwrap panics for a nil pointer.
type nilError struct{ cause error }

func (e *nilError) Error() string { return "nil error" }
func (e *nilError) Unwrap() error { return e.cause }

// TestOutcomeOfPanickingError: an error whose methods panic is a plain error, and the outcome's Err
// does not panic.
func TestOutcomeOfPanickingError(t *testing.T) {
	o, ok := queue.OutcomeOf(t.Context(), &queue.Job{Attempt: 1, MaxAttempts: 5}, (*nilError)(nil))
	if !ok || o.Action != queue.Retry || errors.Is(o.Err, errPlain) || o.Err.Error() != "nil error" {
		t.Errorf("got %v with error %q (%v), want retry with its text", o.Action, queue.ErrorText(o.Err), ok)
	}
}

// TestBackoff: delays are spread over 30 %, at the cap too, so that jobs that failed together do
// not run again together.
func TestBackoff(t *testing.T) {
	const atCap = time.Hour / 13 * 10
	for attempt, base := range map[int]time.Duration{
		-1: 30 * time.Second, 0: 30 * time.Second, 1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute,
		7: 32 * time.Minute, 8: atCap, 1000: atCap,
	} {
		least, longest := time.Duration(math.MaxInt64), time.Duration(0)
		for range 1000 {
			d := queue.Backoff(attempt)
			least, longest = min(least, d), max(longest, d)
		}
		if least < base || least > base*11/10 || longest > base*13/10 || longest < base*12/10 {
			t.Errorf("attempt %d: %v to %v, want %v to %v", attempt, least, longest, base, base*13/10)
		}
	}
}

// rude is an error whose methods panic.
type rude struct{}

func (*rude) Error() string { panic("no comment") }

func TestErrorText(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"nil", queue.ErrorText(nil), ""},
		{"plain", queue.ErrorText(errPlain), "plain"},
		{"NUL", queue.ErrorText(errors.New("a\x00b")), "a\uFFFDb"},
		{"invalid UTF-8", queue.ErrorText(errors.New("a\xffb")), "a\uFFFDb"},
		{"panicking", queue.ErrorText(&rude{}), "*queue_test.rude: its Error method panicked"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	for cut := range 4 { // somewhere within a rune
		for _, long := range []string{"😀", "a\xff", "\x00", "a\x00", "é"} {
			text := queue.ErrorText(errors.New(strings.Repeat("x", cut) + strings.Repeat(long, 10_000)))
			if !utf8.ValidString(text) || len(text) > 8<<10 || len(text) < 8<<10-8 || !strings.HasSuffix(text, " …") {
				t.Errorf("%d and many %q become %d bytes ending in %q", cut, long, len(text), text[len(text)-8:])
			}
		}
	}
	if got := queue.ErrorText(errors.New(strings.Repeat("x", 8<<10))); len(got) != 8<<10 || !strings.HasSuffix(got, "x") {
		t.Errorf("a text of 8 KiB: got %d bytes, want it as it is", len(got))
	}
}
