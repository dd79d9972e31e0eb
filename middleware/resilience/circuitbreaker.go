package resilience

import (
	"cmp"
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// State is the state of a kind's circuit.
type State string

// The states, under their usual names.
const (
	Closed   State = "closed"    // all run
	Open     State = "open"      // none runs
	HalfOpen State = "half-open" // a few run, as a trial
)

// CircuitBreakerOptions configure [CircuitBreaker]. The zero value works.
type CircuitBreakerOptions struct {
	// Failures is how many runs of a kind must fail in a row for its circuit to open; 0 means 5.
	Failures int
	// Delay is how long a circuit stays open before trial jobs run; 0 means 30 s.
	Delay time.Duration
	// Successes is how many trial jobs must succeed for the circuit to close, and how many of them
	// run at once; 0 means 1. The first trial that fails opens the circuit again.
	Successes int
	// IsFailure reports whether an error is the fault of what the kind depends on; nil means that
	// every error is. An error that is not counts neither as a failure nor as a success. IsFailure
	// is not asked about a handler's own answers, except [queue.RetryAfter]. It is called
	// concurrently. A panic of IsFailure counts as the handler's.
	IsFailure func(error) bool
	// OnChange, if not nil, is called for each change of state. The changes of one kind are
	// reported in order, one at a time. The call is part of a job's run, which waits for it; other
	// jobs do not wait.
	OnChange func(kind string, from, to State)
}

const (
	defaultFailures  = 5
	defaultDelay     = 30 * time.Second
	defaultSuccesses = 1
)

// CircuitBreaker stops running the jobs of a kind once enough of them have failed in a row, so that
// they neither use up their attempts nor burden a dependency that is down. Each kind has a circuit
// of its own, shared by all handlers that the one Middleware wraps.
//
// While the circuit is open, jobs are snoozed until its Delay is over, plus up to a tenth at
// random. Then the circuit is half-open: as many jobs as Successes run as trials. Other jobs are
// snoozed for as long as the trial has lasted so far, at least a second and at most Delay (for
// Delay, if that is less than a second). A failed trial costs its job an attempt: one attempt each
// Delay.
//
// A failure is an error, including [queue.RetryAfter] and timeouts, a panic, which passes on, or
// runtime.Goexit. A success is nil or [queue.ErrSettled]. Neither counts: [queue.Snooze] and
// [queue.Discard], which are about the job itself; an error after the worker has ended the context
// ([queue.ErrShutdown], [queue.ErrLost]); and a run that began before the circuit last changed.
//
// A trial job that never returns keeps its circuit half-open, so give the handler a timeout that it
// obeys.
//
// CircuitBreaker panics if a field of o is below 0, a number is above a million, or Delay is above
// a year.
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
			return circuits.get(job.Kind).run(ctx, job, next)
		})
	}
}

// result is what a run shows about the state of what the kind depends on.
type result uint8

const (
	failure result = iota
	success
	neither
)

// judge returns the result of a run that has returned err.
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
