package resilience

import (
	"cmp"
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// State is what a circuit breaker does with jobs.
type State string

// The states, by the names that circuit breakers have for them.
const (
	Closed   State = "closed"    // all run
	Open     State = "open"      // none runs
	HalfOpen State = "half-open" // a few run, as a trial
)

// CircuitBreakerOptions are the choices of [CircuitBreaker]; the zero value is good.
type CircuitBreakerOptions struct {
	// Failures is how many runs of a kind must fail, with no success among them, for
	// its circuit to open; 0 means 5.
	Failures int
	// Delay is how long a circuit is open before trial jobs run; 0 means 30 s.
	Delay time.Duration
	// Successes is how many trial jobs must succeed for the circuit to close, and
	// how many of them run at once; 0 means 1. The first that fails opens it again.
	Successes int
	// IsFailure says whether an error is the fault of what the kind depends on; nil
	// means that each is. It is not asked about answers other than
	// [queue.RetryAfter]. An error of which it says no counts neither as a failure nor
	// as a success. It is called concurrently; if it panics, it is as if the
	// handler had.
	IsFailure func(error) bool
	// OnChange, where not nil, is told of each change, those of one kind in their
	// order and one at a time. It is called within the run of a job, which waits for
	// it; other jobs do not.
	OnChange func(kind string, from, to State)
}

const (
	defaultFailures  = 5
	defaultDelay     = 30 * time.Second
	defaultSuccesses = 1
)

// CircuitBreaker stops running the jobs of a kind once enough of them have failed
// one after the other, so that they neither use up their attempts nor burden what is
// down. Each kind has a circuit of its own, for all that the one Middleware wraps.
//
// While the circuit is open, jobs are snoozed until it is to be tried, and up to a
// tenth longer. Then as many as Successes run as a trial, and those that come
// meanwhile are snoozed for as long again as the trial has taken so far, but for a
// second at least and for Delay at most (for Delay, where that is less than a second).
// A trial that fails has cost its job an attempt: one each Delay.
//
// A failure is an error, [queue.RetryAfter] and a timeout among them, a panic,
// which passes on, and runtime.Goexit. A success is nil or [queue.Settled]. Neither
// is [queue.Snooze] or [queue.Discard], which are about the job itself, or an error
// after the worker has ended the context ([queue.ErrShutdown], [queue.ErrLost]):
// then it is as if the job had not run. So it is where the circuit has changed
// since the run began: what began before says nothing of how things are now.
//
// A trial job that never returns keeps its circuit half-open: give the handler a
// timeout that it obeys.
//
// CircuitBreaker panics if a field of o is below 0, a number above a million, or
// Delay above a year.
func CircuitBreaker(o CircuitBreakerOptions) queue.Middleware {
	checkCount("CircuitBreakerOptions.Failures", o.Failures)
	checkCount("CircuitBreakerOptions.Successes", o.Successes)
	checkDuration("CircuitBreakerOptions.Delay", o.Delay)
	o.Failures = cmp.Or(o.Failures, defaultFailures)
	o.Delay = cmp.Or(o.Delay, defaultDelay)
	o.Successes = cmp.Or(o.Successes, defaultSuccesses)
	circuits := newPerKind(func(kind string) *circuit { return newCircuit(kind, o) })
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			return circuits.of(job.Kind).run(ctx, job, next)
		})
	}
}

// result is what a run says about what the kind depends on.
type result uint8

const (
	failure result = iota
	success
	neither
)

// judge reads the error of a run that has returned.
func (o *CircuitBreakerOptions) judge(ctx context.Context, err error) result {
	switch action, _ := queue.ActionOf(err); {
	case action == queue.Done:
		return success
	case action != queue.Retry || queue.EndedByWorker(ctx):
		return neither
	case o.IsFailure == nil || o.IsFailure(err):
		return failure
	}
	return neither
}
