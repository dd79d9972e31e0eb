package queue

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/internal/check"
)

// OutcomeAction is what Settle does with a job after a run. The zero value is Done.
type OutcomeAction uint8

const (
	// Done completes the job.
	Done OutcomeAction = iota
	// Retry makes the job due again after the outcome's Delay. If this was the last of its
	// MaxAttempts, the job is dead.
	Retry
	// Dead ends the job without success. It is kept for a person.
	Dead
	// Release makes the job pending again, and this run does not count as an attempt. With a Delay
	// above 0 the job is due again after that, and comes after the jobs of its priority that are
	// due by then. With a Delay of 0 the job keeps the time at which it became due, and so its
	// place.
	Release
	// Cancel ends the job because somebody has cancelled it. A backend does the same for Retry and
	// Release if it knows that the job is to be cancelled.
	Cancel
)

// notExtended is the error of a handler that was cancelled because its worker could not extend the
// lease in time. It wraps [ErrLost], as that of a crash does.
type notExtended struct{ err error }

func (e notExtended) Error() string {
	return "queue: the lease could not be extended in time: " + ErrorText(e.err)
}

func (e notExtended) Unwrap() []error { return []error{ErrLost, e.err} }

// minSnooze is the shortest Delay of a snooze. It puts the job after the jobs that are due. With a
// Delay of 0 the job would keep its place, and the worker would claim it again at once.
const minSnooze = time.Microsecond

// String returns "done", "retry", "dead", "release" or "cancel".
func (a OutcomeAction) String() string {
	switch a {
	case Done:
		return "done"
	case Retry:
		return "retry"
	case Dead:
		return "dead"
	case Release:
		return "release"
	case Cancel:
		return "cancel"
	}
	return "unknown"
}

// Outcome says how a run of one job has ended, as Settle records it. Only Job is required.
type Outcome struct {
	Job    *Job
	Action OutcomeAction
	// Throttle, with Release, means that a rate stands still for Delay: the rate of the job's group,
	// or else the rate of its queue. See [Throttle]. The backend finds group and queue by the job's
	// ID, and a lost job throttles nothing. In a transaction the rate may stand still before the
	// commit, and even if that fails.
	Throttle bool
	Delay    time.Duration // with Retry and Release: how long until the job is due; below 0 means 0
	Err      error         // with Retry, Dead and Cancel: its text is stored as the job's LastError; may be nil
	// Output is the job's output: with Done only, on a backend that is a [driver.ResultKeeper]. nil
	// means none.
	Output json.RawMessage
}

// Check returns an [*InvalidError] if Job is nil, Action is unknown, Delay is above 100 years,
// Throttle is set without Release, or Output is bad. Backends check all outcomes of a call before
// they settle any.
func (o Outcome) Check() error {
	if o.Job == nil {
		return invalid("Outcome.Job", "nil")
	}
	if o.Action > Cancel {
		return invalid("Outcome.Action", "%d: no action", o.Action)
	}
	if o.Delay > check.MaxDelay {
		return invalid("Outcome.Delay", "%v: at most %v", o.Delay, check.MaxDelay)
	}
	if o.Throttle && o.Action != Release {
		return invalid("Outcome.Throttle", "with the action %v: only a release throttles", o.Action)
	}
	if o.Output != nil {
		if o.Action != Done {
			return invalid("Outcome.Output", "with the action %v: only done jobs have an output", o.Action)
		}
		return checkOutput("Outcome.Output", o.Output)
	}
	return nil
}

// OutcomeOf returns the outcome of a run whose handler had the context ctx and returned err. It
// finds the handler's answer in err with errors.Is and errors.As:
//
//	nil                  Done
//	RetryAfter(d, err)   Retry after d
//	Discard(err)         Dead
//	Snooze(d)            Release for d, at least a microsecond; no attempt used
//	Throttle(d, err)     the same, and the rate of the job's group or queue stands still for d
//	ErrSettled           ok is false: there is nothing to settle
//	any other            Retry after Backoff(job.Attempt), or Dead after the last attempt
//	Logged(err, o)       as err; if that is any other, Retry after o.Delay
//
// If ctx was cancelled with [ErrShutdown], any other error means Release: it is a consequence of
// the cancellation. With [ErrLost] it means Retry, as after a crash, with an Err that wraps
// ErrLost: if a different worker holds the job, it is not recorded. If ctx was cancelled with
// [ErrCancelled], every error but ErrSettled and Discard means Cancel. An error whose own methods
// panic, as the methods of a nil pointer may, counts as any other error.
func OutcomeOf(ctx context.Context, job *Job, err error) (o Outcome, ok bool) {
	a, err := answerIn(err)
	switch {
	case a == settled:
		return Outcome{Job: job}, false
	case a != done && a.action != Dead && errors.Is(context.Cause(ctx), ErrCancelled):
		return Outcome{Job: job, Action: Cancel, Err: err}, true
	case a == plain && errors.Is(context.Cause(ctx), ErrShutdown):
		return Outcome{Job: job, Action: Release}, true
	case a == plain:
		if errors.Is(context.Cause(ctx), ErrLost) {
			err = notExtended{err}
		}
		o = Outcome{Job: job, Action: Retry, Delay: backoffOf(job, err), Err: err}
	default:
		o = Outcome{Job: job, Action: a.action, Delay: min(max(a.delay, 0), check.MaxDelay), Err: err}
	}
	switch o.Action {
	case Done:
		o.Output = OutputOf(ctx)
	case Release:
		o.Delay = max(o.Delay, minSnooze)
		o.Throttle = a.throttles
	}
	if o.Action == Retry && job.MaxAttempts > 0 && job.Attempt >= job.MaxAttempts {
		o.Action, o.Delay = Dead, 0
	}
	return o, true
}

// backoffOf returns the default back-off of a job that failed with err, or the one that middleware
// has logged already.
func backoffOf(job *Job, err error) time.Duration {
	if l, ok := errors.AsType[*logged](err); ok && l.action == Retry && l.delay > 0 {
		return l.delay
	}
	return Backoff(job.Attempt)
}

// ActionOf returns the action that a handler's error asks for: Done for nil and [ErrSettled], Retry
// for [RetryAfter], Dead for [Discard], Release for [Snooze] and [Throttle]. It finds them with
// errors.Is and errors.As. For any other error it returns Retry and ok is false. Then [OutcomeOf]
// decides, and middleware may replace the error. Middleware should pass on errors for which ok is
// true.
func ActionOf(err error) (action OutcomeAction, ok bool) {
	a, _ := answerIn(err)
	return a.action, a != plain
}

// These are the answers of errors that RetryAfter, Discard or Snooze have not made.
var (
	done    = &answer{action: Done}
	settled = &answer{action: Done}
	plain   = &answer{action: Retry}
)

// answerIn returns the answer in err, and err itself. If err's methods panic, it returns an error
// with err's text instead.
func answerIn(err error) (a *answer, readable error) {
	if err == nil {
		return done, nil
	}
	defer func() {
		if recover() != nil {
			a, readable = plain, errors.New(ErrorText(err))
		}
	}()
	if errors.Is(err, ErrSettled) {
		return settled, err
	}
	if a, ok := errors.AsType[*answer](err); ok {
		return a, err
	}
	return plain, err
}

// EndedByWorker reports whether a handler's context was ended by its worker, with [ErrShutdown],
// [ErrLost] or [ErrCancelled]. Then an error that is no answer is a consequence of that, and says
// nothing about the job.
func EndedByWorker(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrLost) || errors.Is(cause, ErrCancelled)
}

// Backoff returns how long a job waits by default before its retry after the given attempt, from 1:
// 30 s, doubled for each attempt before, plus 0 to 30 % at random. From the eighth attempt on it is
// 46 minutes to an hour.
func Backoff(attempt int) time.Duration {
	const base, limit = 30 * time.Second, time.Hour
	shift := min(max(attempt-1, 0), 7) // 30 s << 7 is beyond the limit
	d := min(base<<shift, limit/13*10)
	return d + time.Duration(rand.Int64N(int64(d)*3/10+1))
}
