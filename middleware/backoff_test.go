package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// StatusError is what a client of an HTTP service returns for a bad status.
type StatusError struct {
	Status int
	Wait   time.Duration // of the response's Retry-After header; 0 without one
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d", e.Status) }

// RetryAfter is what middleware.Backoff asks.
func (e *StatusError) RetryAfter() time.Duration { return e.Wait }

func ExampleBackoff() {
	responses := []error{
		&StatusError{Status: 500},
		&StatusError{Status: 429, Wait: 90 * time.Second}, // Too Many Requests, Retry-After: 90
		&StatusError{Status: 503, Wait: 2 * time.Hour},    // Service Unavailable, Retry-After: 7200
		&StatusError{Status: 500},
	}
	handler := queue.Chain(
		queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			return fmt.Errorf("charging: %w", responses[job.Attempt-1])
		}),
		middleware.Backoff(middleware.Exponential{Base: time.Second, Jitter: middleware.NoJitter}),
	)
	for attempt := range len(responses) {
		job := &queue.Job{Attempt: attempt + 1, MaxAttempts: 5}
		outcome, _ := queue.OutcomeOf(context.Background(), job, handler.HandleJob(context.Background(), job))
		fmt.Println(outcome.Action, outcome.Delay, outcome.Err)
	}
	// Output:
	// retry 1s charging: status 500
	// retry 1m30s charging: status 429
	// retry 2h0m0s charging: status 503
	// retry 8s charging: status 500
}

func ExampleExponential() {
	p := middleware.Exponential{Base: time.Second, Factor: 3, Cap: time.Minute, Jitter: middleware.NoJitter}
	fmt.Println(p.Delay(1), p.Delay(2), p.Delay(3), p.Delay(4), p.Delay(5))
	// Output: 1s 3s 9s 27s 1m0s
}

func ExampleLinear() {
	p := middleware.Linear{Base: time.Second, Step: 10 * time.Second, Cap: 25 * time.Second, Jitter: middleware.NoJitter}
	fmt.Println(p.Delay(1), p.Delay(2), p.Delay(3), p.Delay(4), p.Delay(5))
	// Output: 1s 11s 21s 25s 25s
}

func ExampleFixed() {
	p := middleware.Fixed{Base: 10 * time.Second, Jitter: middleware.EqualJitter}
	d := p.Delay(1)
	fmt.Println(5*time.Second <= d && d <= 10*time.Second)
	// Output: true
}

// TestPolicyDelays: the delays without jitter, from the first to where int64 and float64 end.
func TestPolicyDelays(t *testing.T) {
	const none, most = middleware.NoJitter, time.Duration(math.MaxInt64)
	for _, c := range []struct {
		name    string
		p       middleware.Policy
		attempt int
		want    time.Duration
	}{
		{"zero Exponential", middleware.Exponential{Jitter: none}, 1, 30 * time.Second},
		{"zero Exponential", middleware.Exponential{Jitter: none}, 4, 4 * time.Minute},
		{"zero Exponential", middleware.Exponential{Jitter: none}, 7, 32 * time.Minute},
		{"zero Exponential", middleware.Exponential{Jitter: none}, 8, time.Hour},
		{"zero Exponential", middleware.Exponential{Jitter: none}, 1_000_000, time.Hour},
		{"zero Exponential", middleware.Exponential{Jitter: none}, math.MaxInt, time.Hour},
		{"zero Exponential", middleware.Exponential{Jitter: none}, 0, 30 * time.Second},
		{"zero Exponential", middleware.Exponential{Jitter: none}, math.MinInt, 30 * time.Second},
		{"Factor 1.5", middleware.Exponential{Factor: 1.5, Jitter: none}, 3, 67500 * time.Millisecond},
		{"Factor 1", middleware.Exponential{Factor: 1, Jitter: none}, math.MaxInt, 30 * time.Second},
		{"huge Factor", middleware.Exponential{Factor: math.MaxFloat64, Jitter: none}, 1_000_000, time.Hour},
		{"huge Exponential", middleware.Exponential{Base: most, Cap: most, Jitter: none}, 2, most},
		{"all but huge", middleware.Exponential{Base: most - 1, Cap: most - 1, Jitter: none}, 1, most - 1},
		{"no Cap", middleware.Exponential{Cap: most, Jitter: none}, 64, most},

		{"zero Linear", middleware.Linear{Jitter: none}, 1, 30 * time.Second},
		{"zero Linear", middleware.Linear{Jitter: none}, 3, 90 * time.Second},
		{"zero Linear", middleware.Linear{Jitter: none}, 119, 119 * 30 * time.Second},
		{"zero Linear", middleware.Linear{Jitter: none}, 121, time.Hour},
		{"zero Linear", middleware.Linear{Jitter: none}, math.MaxInt, time.Hour},
		{"zero Linear", middleware.Linear{Jitter: none}, -3, 30 * time.Second},
		{"Step", middleware.Linear{Step: time.Second, Jitter: none}, 3, 32 * time.Second},
		{"huge Step", middleware.Linear{Step: most, Cap: most, Jitter: none}, 1, 30 * time.Second},
		{"huge Step", middleware.Linear{Step: most, Cap: most, Jitter: none}, 3, most},
		{"tiny Step", middleware.Linear{Base: 1, Cap: most, Jitter: none}, math.MaxInt, most},
		{"huge Linear", middleware.Linear{Base: most, Cap: most, Jitter: none}, 1_000_000, most},

		{"zero Fixed", middleware.Fixed{Jitter: none}, 1_000_000, 30 * time.Second},
		{"huge Fixed", middleware.Fixed{Base: most, Jitter: none}, 1, most},
	} {
		if got := c.p.Delay(c.attempt); got != c.want {
			t.Errorf("%s, attempt %d: got %v, want %v", c.name, c.attempt, got, c.want)
		}
	}
}

// TestJitter: delays stay within their bounds, come near to both, and lie in the middle on average.
// The tolerances are many times what chance could do.
func TestJitter(t *testing.T) {
	const draws = 10_000
	const most = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		name    string
		p       middleware.Policy
		attempt int
		lo, hi  time.Duration
	}{
		{"proportional", middleware.Exponential{}, 1, 30 * time.Second, 39 * time.Second},
		{"proportional", middleware.Exponential{}, 3, 2 * time.Minute, 156 * time.Second},
		{"proportional, cut by Cap", middleware.Exponential{Cap: 39 * time.Second, Base: 35 * time.Second}, 1, 30 * time.Second, 39 * time.Second},
		{"proportional, at Cap", middleware.Exponential{}, 1_000_000, time.Hour / 13 * 10, time.Hour},
		{"proportional, at Cap", middleware.Linear{}, 1_000_000, time.Hour / 13 * 10, time.Hour},
		{"proportional, huge", middleware.Fixed{Base: most}, 1, most / 13 * 10, most},
		{"proportional, large", middleware.Fixed{Base: most / 2}, 1, most / 2, most / 20 * 13},
		{"proportional, tiny", middleware.Fixed{Base: 10}, 1, 10, 13},
		{"full", middleware.Exponential{Jitter: middleware.FullJitter}, 2, 0, time.Minute},
		{"full, at Cap", middleware.Exponential{Jitter: middleware.FullJitter}, 1_000_000, 0, time.Hour},
		{"full, huge", middleware.Fixed{Base: most, Jitter: middleware.FullJitter}, 1, 0, most},
		{"equal", middleware.Linear{Jitter: middleware.EqualJitter}, 2, 30 * time.Second, time.Minute},
		{"equal, odd", middleware.Fixed{Base: 5, Jitter: middleware.EqualJitter}, 1, 2, 5},
		{"equal, huge", middleware.Fixed{Base: most, Jitter: middleware.EqualJitter}, 1, most / 2, most},
	} {
		least, longest, mean := most, time.Duration(0), 0.0
		for range draws {
			d := c.p.Delay(c.attempt)
			least, longest = min(least, d), max(longest, d)
			mean += float64(d) / draws
		}
		if least < c.lo || longest > c.hi {
			t.Errorf("%s: got %v to %v, want %v to %v", c.name, least, longest, c.lo, c.hi)
			continue
		}
		width := float64(c.hi - c.lo)
		if float64(least-c.lo) > width/20 || float64(c.hi-longest) > width/20 {
			t.Errorf("%s: got %v to %v only, want %v to %v", c.name, least, longest, c.lo, c.hi)
		}
		if middle := float64(c.lo) + width/2; math.Abs(mean-middle) > width/20+middle*1e-9 {
			t.Errorf("%s: mean %v, want about %v", c.name, time.Duration(mean), time.Duration(middle))
		}
	}
}

// TestZeroExponential: it is what a queue does without Backoff.
func TestZeroExponential(t *testing.T) {
	const draws = 1_000
	for attempt := -1; attempt <= 12; attempt++ {
		var least, longest [2]time.Duration
		for i, delay := range []func(int) time.Duration{queue.Backoff, middleware.Exponential{}.Delay} {
			least[i], longest[i] = math.MaxInt64, 0
			for range draws {
				d := delay(attempt)
				least[i], longest[i] = min(least[i], d), max(longest[i], d)
			}
		}
		close := least[0] / 50 // chance leaves far less of the 30 % unvisited
		if (least[0]-least[1]).Abs() > close || (longest[0]-longest[1]).Abs() > close {
			t.Errorf("attempt %d: got %v to %v, want %v to %v", attempt, least[1], longest[1], least[0], longest[0])
		}
	}
}

// TestPolicyBounds: whatever the fields and the attempt, a delay is within its policy's Cap, and
// the next attempt's is not shorter but for jitter.
func TestPolicyBounds(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	durations := []time.Duration{1, 7, time.Second, time.Hour, most / 3, most - 1, most}
	for _, limit := range durations {
		for _, base := range durations {
			for _, step := range durations {
				factor := 1 + float64(step)/1e9
				for jitter := middleware.ProportionalJitter; jitter <= middleware.NoJitter; jitter++ {
					wantBounds(t, limit, jitter, middleware.Exponential{Base: base, Factor: factor, Cap: limit, Jitter: jitter})
					wantBounds(t, limit, jitter, middleware.Linear{Base: base, Step: step, Cap: limit, Jitter: jitter})
				}
			}
		}
	}
}

// wantBounds walks through the attempts of a policy.
func wantBounds(t *testing.T, limit time.Duration, jitter middleware.Jitter, p middleware.Policy) {
	t.Helper()
	last := time.Duration(0)
	for _, attempt := range []int{math.MinInt, 0, 1, 2, 3, 10, 63, 64, 65, 1_000_000, math.MaxInt} {
		d := p.Delay(attempt)
		if d < 0 || d > limit {
			t.Errorf("%+v: attempt %d: got %v, want 0 to %v", p, attempt, d, limit)
		}
		if jitter == middleware.NoJitter && d < last {
			t.Errorf("%+v: attempt %d: got %v after %v", p, attempt, d, last)
		}
		last = d
	}
}

// basicPolicy is a user's own.
type basicPolicy func(attempt int) time.Duration

func (p basicPolicy) Delay(attempt int) time.Duration { return p(attempt) }

// TestBackoffDelays: the policy's delay, or the error's own.
func TestBackoffDelays(t *testing.T) {
	days := basicPolicy(func(attempt int) time.Duration { return time.Duration(attempt) * 24 * time.Hour })
	tooMany := &StatusError{Status: 429, Wait: time.Second}
	for _, c := range []struct {
		name    string
		p       middleware.Policy
		err     error
		attempt int
		action  queue.OutcomeAction
		delay   time.Duration
	}{
		{"plain", days, basicWrap(errBasic), 3, queue.Retry, 72 * time.Hour},
		{"plain, by hand", days, errBasic, 0, queue.Retry, 24 * time.Hour},
		{"last attempt", days, errBasic, 10, queue.Dead, 0},
		{"below 0", basicPolicy(func(int) time.Duration { return -1 }), errBasic, 1, queue.Retry, 0},
		{"Retry-After", days, basicWrap(tooMany), 3, queue.Retry, time.Second},
		{"Retry-After, last attempt", days, tooMany, 10, queue.Dead, 0},
		{"Retry-After of 0", days, &StatusError{Status: 500}, 3, queue.Retry, 72 * time.Hour},
		{"Retry-After below 0", days, &StatusError{Wait: -time.Hour}, 3, queue.Retry, 72 * time.Hour},
		{"Retry-After in a RetryAfter", days, queue.RetryAfter(time.Minute, tooMany), 3, queue.Retry, time.Minute},
		{"Retry-After in a Discard", days, queue.Discard(tooMany), 3, queue.Dead, 0},
		{"Snooze", days, queue.Snooze(time.Hour), 3, queue.Release, time.Hour},
		{"nil", days, nil, 3, queue.Done, 0},
	} {
		err := middleware.Backoff(c.p)(basicReturns(c.err)).HandleJob(t.Context(), basicJob(c.attempt))
		o, ok := queue.OutcomeOf(t.Context(), basicJob(c.attempt), err)
		if !ok || o.Action != c.action || o.Delay != c.delay || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v after %v with %v, want %v after %v", c.name, o.Action, o.Delay, err, c.action, c.delay)
		}
		if _, said := queue.ActionOf(c.err); said && !basicSame(err, c.err) {
			t.Errorf("%s: got %v, want the answer as it is", c.name, err)
		}
	}
}

// TestBackoffInner: the innermost of two decides.
func TestBackoffInner(t *testing.T) {
	inner := middleware.Backoff(middleware.Fixed{Base: time.Second, Jitter: middleware.NoJitter})
	outer := middleware.Backoff(middleware.Fixed{Base: time.Hour, Jitter: middleware.NoJitter})
	err := queue.Chain(basicReturns(errBasic), outer, inner).HandleJob(t.Context(), basicJob(1))
	if o, _ := queue.OutcomeOf(t.Context(), basicJob(1), err); o.Delay != time.Second {
		t.Errorf("got %v, want the inner one's 1s", o.Delay)
	}
}

// basicBadAsk is an error whose nil pointer cannot be asked how long to wait.
type basicBadAsk struct{ wait time.Duration }

func (*basicBadAsk) Error() string               { return "bad ask" }
func (e *basicBadAsk) RetryAfter() time.Duration { return e.wait }

// TestBackoffPanickingErrors: an error that cannot be asked is its text.
func TestBackoffPanickingErrors(t *testing.T) {
	p := middleware.Fixed{Base: time.Minute, Jitter: middleware.NoJitter}
	want := func(text string, panicking error) {
		t.Helper()
		err := middleware.Backoff(p)(basicReturns(panicking)).HandleJob(t.Context(), basicJob(1))
		o, ok := queue.OutcomeOf(t.Context(), basicJob(1), err)
		if !ok || o.Action != queue.Retry || o.Delay != time.Minute || queue.ErrorText(o.Err) != text {
			t.Errorf("got %v after %v with %q, want retry after 1m with %q", o.Action, o.Delay, queue.ErrorText(o.Err), text)
		}
	}
	for text, panicking := range basicPanicking {
		want(text, panicking)
	}
	want("bad ask", (*basicBadAsk)(nil))
}

func TestBackoffMisuse(t *testing.T) {
	for part, p := range map[string]middleware.Policy{
		"p is nil":                   nil,
		"Exponential.Base -1s":       middleware.Exponential{Base: -time.Second},
		"Exponential.Cap -1s":        middleware.Exponential{Cap: -time.Second},
		"Exponential.Cap 1h0m0s: at": middleware.Exponential{Base: 2 * time.Hour},
		"Exponential.Cap 1s: at":     &middleware.Exponential{Cap: time.Second},
		"Exponential.Factor -1":      middleware.Exponential{Factor: -1},
		"Exponential.Factor 0.9":     middleware.Exponential{Factor: 0.9},
		"Exponential.Factor NaN":     middleware.Exponential{Factor: math.NaN()},
		"Exponential.Factor +Inf":    middleware.Exponential{Factor: math.Inf(1)},
		"Exponential.Factor -Inf":    middleware.Exponential{Factor: math.Inf(-1)},
		"Exponential.Jitter 4":       middleware.Exponential{Jitter: 4},
		"Linear.Base -1s":            middleware.Linear{Base: -time.Second},
		"Linear.Step -1s":            middleware.Linear{Step: -time.Second},
		"Linear.Cap -1s":             middleware.Linear{Cap: -time.Second},
		"Linear.Jitter 255":          middleware.Linear{Jitter: 255},
		"Fixed.Base -1s":             middleware.Fixed{Base: -time.Second},
		"Fixed.Jitter 4":             middleware.Fixed{Jitter: 4},
	} {
		wantPanic(t, "middleware: Backoff: "+part, func() { middleware.Backoff(p) })
	}
	middleware.Backoff(middleware.Fixed{Base: 365 * 24 * time.Hour}) // has no Cap
	for _, p := range []middleware.Policy{                           // unchecked, they still do not panic
		middleware.Exponential{Base: -1, Cap: -1, Factor: math.NaN()}, middleware.Exponential{Factor: math.Inf(-1), Jitter: 9},
		middleware.Linear{Base: -1, Step: -1, Cap: -1}, middleware.Linear{Base: 2 * time.Hour}, middleware.Fixed{Base: -1},
	} {
		wantBounds(t, time.Hour, middleware.FullJitter, p)
	}
}
