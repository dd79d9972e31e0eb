package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/middleware/resilience"
	"github.com/errandhq/errand/queue"
)

// tripped is a breaker with an open circuit of the kind "mail".
func tripped(t *testing.T, o resilience.CircuitBreakerOptions) queue.Middleware {
	t.Helper()
	o.Failures = 1
	m := resilience.CircuitBreaker(o)
	wantRan(t, "the job that trips it", m, "mail", errDown)
	return m
}

func TestOpensAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := resilience.CircuitBreaker(resilience.CircuitBreakerOptions{Failures: 3, Delay: time.Minute})
		for i, err := range []error{errDown, errDown, nil, errDown, errDown, errDown} {
			wantRan(t, fmt.Sprintf("job %d", i), m, "mail", err)
		}
		wantSnoozed(t, "after three failures", m, "mail", time.Minute, 66*time.Second)
		wantRan(t, "of another kind", m, "report", errDown)
		time.Sleep(40 * time.Second)
		wantSnoozed(t, "40 s later", m, "mail", 20*time.Second, 22*time.Second)
		time.Sleep(20*time.Second - time.Millisecond)
		wantSnoozed(t, "just before the trial", m, "mail", time.Second, 1100*time.Millisecond)
		time.Sleep(time.Millisecond)
		wantRan(t, "a minute later", m, "mail", nil)
	})
}

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := resilience.CircuitBreaker(resilience.CircuitBreakerOptions{})
		for i := range 5 {
			wantRan(t, fmt.Sprintf("failure %d", i+1), m, "mail", errDown)
		}
		wantSnoozed(t, "after five failures", m, "mail", 30*time.Second, 33*time.Second)
		time.Sleep(30 * time.Second)
		wantRan(t, "the trial", m, "mail", nil)
		wantRan(t, "after one success", m, "mail", errDown)
		wantRan(t, "after one success and one failure", m, "mail", nil)
	})
}

// TestHalfOpen: as many trials as Successes run at once, and what they say decides.
func TestHalfOpen(t *testing.T) {
	for _, successes := range []int{1, 3} {
		t.Run(fmt.Sprint(successes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testHalfOpen(t, successes) })
		})
	}
}

func testHalfOpen(t *testing.T, successes int) {
	m := tripped(t, resilience.CircuitBreakerOptions{Delay: time.Minute, Successes: successes})
	trial := func() (trials []*held) {
		time.Sleep(time.Minute)
		for range successes {
			trials = append(trials, hold(t, m, "mail"))
		}
		wantSnoozed(t, "beside all trials", m, "mail", time.Second, 1100*time.Millisecond)
		return trials
	}
	trials := trial()
	for _, h := range trials[1:] {
		h.end(nil)
		again := hold(t, m, "mail") // in its place
		wantSnoozed(t, "beside all trials again", m, "mail", time.Second, 1100*time.Millisecond)
		defer again.end(errDown)
	}
	trials[0].end(errDown)
	wantSnoozed(t, "after a trial that failed", m, "mail", time.Minute, 66*time.Second)

	for _, h := range trial() {
		h.end(nil)
	}
	wantRan(t, "after trials that succeeded", m, "mail", nil)
}

// TestHalfOpenWaits: what comes beside a long trial waits longer and longer.
func TestHalfOpenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, resilience.CircuitBreakerOptions{Delay: time.Minute})
		time.Sleep(time.Minute)
		h := hold(t, m, "mail")
		defer h.end(nil)
		time.Sleep(10 * time.Second)
		wantSnoozed(t, "10 s into the trial", m, "mail", 10*time.Second, 11*time.Second)
		time.Sleep(time.Hour)
		wantSnoozed(t, "an hour into the trial", m, "mail", time.Minute, 66*time.Second)
	})
}

// TestShortDelay: a Delay of less than a second is the least that a job waits.
func TestShortDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, resilience.CircuitBreakerOptions{Delay: 100 * time.Millisecond})
		time.Sleep(90 * time.Millisecond)
		wantSnoozed(t, "10 ms before the trial", m, "mail", 100*time.Millisecond, 110*time.Millisecond)
	})
}

// TestSnoozesSpread: jobs that were put off together do not come back together.
func TestSnoozesSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := resilience.Bulkhead(1, resilience.BulkheadOptions{Snooze: time.Minute})
		defer hold(t, full, "mail").end(nil)
		wantSpread(t, "a full bulkhead", full)
		wantSpread(t, "an open circuit", tripped(t, resilience.CircuitBreakerOptions{Delay: time.Minute}))
	})
}

func wantSpread(t *testing.T, what string, m queue.Middleware) {
	t.Helper()
	var waits []time.Duration
	for range 100 {
		waits = append(waits, snoozed(t, what, once(t, m, "mail", returns(nil))))
	}
	if spread := slices.Max(waits) - slices.Min(waits); spread < time.Second {
		t.Errorf("%s: of 100 jobs snoozed at once the first is due %v before the last, want seconds", what, spread)
	}
}

// says is what a run may say of what its kind depends on.
var says = []struct {
	name  string
	cause error // with which the context has ended; nil where it has not
	run   func() error
	want  string // the state after a trial that says it
}{
	{"nil", nil, func() error { return nil }, "closed"},
	{"nil after a shutdown", queue.ErrShutdown, func() error { return nil }, "closed"},
	{"Settled", nil, func() error { return fmt.Errorf("done: %w", queue.ErrSettled) }, "closed"},
	{"a plain error", nil, func() error { return errDown }, "open"},
	{"RetryAfter", nil, func() error { return queue.RetryAfter(time.Second, errDown) }, "open"},
	{"a timeout", context.DeadlineExceeded, func() error { return context.DeadlineExceeded }, "open"},
	{"a panic", nil, func() error { panic("boom") }, "open"},
	{"Goexit", nil, func() error { runtime.Goexit(); return nil }, "open"},
	{"what IsFailure knows", nil, func() error { return fmt.Errorf("look up: %w", errMissing) }, "half-open"},
	{"Snooze", nil, func() error { return queue.Snooze(time.Hour) }, "half-open"},
	{"Discard", nil, func() error { return queue.Discard(errDown) }, "half-open"},
	{"an error after a shutdown", queue.ErrShutdown, func() error { return errDown }, "half-open"},
	{"an error of a lost job", queue.ErrLost, func() error { return errDown }, "half-open"},
	{"RetryAfter after a shutdown", queue.ErrShutdown, func() error { return queue.RetryAfter(0, errDown) }, "half-open"},
}

var errMissing = errors.New("no such customer")

// runAlone runs a job in a goroutine of its own, which it may end.
func runAlone(ctx context.Context, h queue.Handler) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		_ = h.HandleJob(ctx, newJob("mail"))
	}()
	<-done
}

// TestTrialSays: what a trial says moves the circuit, and one that says nothing leaves its permit
// to another.
func TestTrialSays(t *testing.T) {
	for _, c := range says {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := tripped(t, resilience.CircuitBreakerOptions{
					Delay:     time.Minute,
					IsFailure: func(err error) bool { return !errors.Is(err, errMissing) },
				})
				time.Sleep(time.Minute)
				for range 3 {
					runAlone(ended(t, c.cause), m(queue.HandlerFunc(func(context.Context, *queue.Job) error { return c.run() })))
				}
				if got := stateOf(t, m); got != c.want {
					t.Errorf("after three trials that say it: got %s, want %s", got, c.want)
				}
			})
		})
	}
}

// stateOf finds out whether the circuit of kind "mail" lets two, one or no jobs run.
func stateOf(t *testing.T, m queue.Middleware) string {
	t.Helper()
	running := 0
	for range 2 {
		say := make(chan error)
		defer func() { close(say); synctest.Wait() }()
		go func() {
			_ = m(queue.HandlerFunc(func(context.Context, *queue.Job) error {
				running++
				return <-say
			})).HandleJob(t.Context(), newJob("mail"))
		}()
		synctest.Wait()
	}
	return []string{"open", "half-open", "closed"}[running]
}

// TestSaidWhileClosed: between two failures only a success makes them begin anew.
func TestSaidWhileClosed(t *testing.T) {
	for _, c := range says {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := resilience.CircuitBreaker(resilience.CircuitBreakerOptions{
					Failures:  2,
					IsFailure: func(err error) bool { return !errors.Is(err, errMissing) },
				})
				wantRan(t, "the first failure", m, "mail", errDown)
				runAlone(ended(t, c.cause), m(queue.HandlerFunc(func(context.Context, *queue.Job) error { return c.run() })))
				if c.want != "open" {
					wantRan(t, "the second failure", m, "mail", errDown)
				}
				want := "open"
				if c.want == "closed" {
					want = "closed"
				}
				if got := stateOf(t, m); got != want {
					t.Errorf("after a failure, it, and a failure: got %s, want %s", got, want)
				}
			})
		})
	}
}

// TestLateResults: runs that began before the circuit changed say nothing of how things are since.
func TestLateResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := resilience.CircuitBreaker(resilience.CircuitBreakerOptions{Failures: 1, Delay: time.Minute, Successes: 2})
		early := []*held{hold(t, m, "mail"), hold(t, m, "mail"), hold(t, m, "mail"), hold(t, m, "mail")}
		wantRan(t, "the job that opens it", m, "mail", errDown)
		early[0].end(errDown)
		time.Sleep(time.Minute)
		trials := []*held{hold(t, m, "mail"), hold(t, m, "mail")}
		for _, h := range early[1:3] {
			h.end(nil)
			wantSnoozed(t, "beside two trials, after a late success", m, "mail", time.Second, 1100*time.Millisecond)
		}
		early[3].end(errDown)
		trials[0].end(nil)
		trials[1].end(nil)
		wantRan(t, "after two trials that succeeded, whatever came late", m, "mail", nil)
	})
}

// TestSparePermit: what a trial without a say has left is no permit once the circuit has opened
// again.
func TestSparePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, resilience.CircuitBreakerOptions{Delay: time.Minute, Successes: 2})
		time.Sleep(time.Minute)
		mute, failing := hold(t, m, "mail"), hold(t, m, "mail")
		mute.end(queue.Snooze(time.Hour))
		failing.end(errDown)
		wantSnoozed(t, "after a trial that failed", m, "mail", time.Minute, 66*time.Second)
	})
}

func TestPanicPassesOn(t *testing.T) {
	m := resilience.CircuitBreaker(resilience.CircuitBreakerOptions{})
	wantPanic(t, "boom", func() {
		_ = once(t, m, "mail", queue.HandlerFunc(func(context.Context, *queue.Job) error { panic("boom") }))
	})
}

func TestCircuitBreakerOptions(t *testing.T) {
	for want, o := range map[string]resilience.CircuitBreakerOptions{
		"resilience: CircuitBreakerOptions.Failures -1: between 0 (for the default) and 1000000":      {Failures: -1},
		"resilience: CircuitBreakerOptions.Failures 1000001: between 0 (for the default) and 1000000": {Failures: 1_000_001},
		"resilience: CircuitBreakerOptions.Successes -1: between 0 (for the default) and 1000000":     {Successes: -1},
		"resilience: CircuitBreakerOptions.Delay -1s: between 0 and 8760h0m0s":                        {Delay: -time.Second},
		"resilience: CircuitBreakerOptions.Delay 8760h0m0.000000001s: between 0 and 8760h0m0s":        {Delay: 365*24*time.Hour + 1},
	} {
		wantPanic(t, want, func() { resilience.CircuitBreaker(o) })
	}
}
