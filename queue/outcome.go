package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Action is what Settle does with a job after a run.
type Action uint8

const (
	// Done: the job is completed.
	Done Action = iota
	// Retry: the job failed and becomes due again after the outcome's Delay, or
	// is dead if this was the last of its MaxAttempts.
	Retry
	// Dead: the job is given up and kept for a person to look at.
	Dead
	// Release: the job is given back and this run does not count as an attempt.
	// With a Delay above 0 the job is due again after it, behind the jobs of its
	// priority that are due by then. With a Delay of 0 the job keeps the time at
	// which it became due, and so its place before them.
	Release
)

// yield is the Delay of a handler that snoozes for no time: its job goes behind
// the jobs that are due. At its old place it would be claimed again at once.
const yield = time.Microsecond

func (v Action) String() string {
	switch v {
	case Done:
		return "done"
	case Retry:
		return "retry"
	case Dead:
		return "dead"
	case Release:
		return "release"
	}
	return "unknown"
}

// Outcome is what a run came to, for one job, as Settle records it.
type Outcome struct {
	Job    *Job
	Action Action
	Delay  time.Duration // with Retry and Release: how long until the job is due again; below 0 means 0. See Release for 0
	Err    error         // with Retry and Dead: kept with the job as its last error
}

// Check returns an [*InvalidError] if the outcome cannot be settled. Backends
// call it for every outcome before they settle any.
func (o Outcome) Check() error {
	if o.Job == nil {
		return invalid("Outcome.Job", "nil")
	}
	if o.Action > Release {
		return invalid("Outcome.Action", "%d: no action", o.Action)
	}
	if o.Delay > maxDelay {
		return invalid("Outcome.Delay", "%v: at most %v", o.Delay, maxDelay)
	}
	return nil
}

// OutcomeOf reads a handler's error, through any wrapping:
//
//	nil                  Done
//	RetryAfter(d, err)   Retry after d
//	Discard(err)         Dead
//	Snooze(d)            Release for d, at least a microsecond; no attempt used
//	Settled              nothing to do: ok is false
//	any other            Retry after Backoff(job.Attempt), or Dead after the last attempt
//
// A plain error of a handler whose ctx was cancelled with [ErrShutdown] or
// [ErrLost] is taken for the cancellation's echo: Release. An error whose own methods
// panic, as a nil pointer's may, is a plain one.
func OutcomeOf(ctx context.Context, job *Job, err error) (o Outcome, ok bool) {
	v, err := read(err)
	switch {
	case v == settled:
		return Outcome{Job: job}, false
	case v == plain && EndedByWorker(ctx):
		return Outcome{Job: job, Action: Release}, true
	case v == plain:
		o = Outcome{Job: job, Action: Retry, Delay: Backoff(job.Attempt), Err: err}
	default:
		o = Outcome{Job: job, Action: v.action, Delay: min(max(v.delay, 0), maxDelay), Err: err}
	}
	if o.Action == Release {
		o.Delay = max(o.Delay, yield)
	}
	if o.Action == Retry && job.MaxAttempts > 0 && job.Attempt >= job.MaxAttempts {
		o.Action, o.Delay = Dead, 0
	}
	return o, true
}

// ActionOf reads what a handler's error itself says, through any wrapping: Done
// for nil and [Settled], Retry for [RetryAfter], Dead for [Discard], Release for
// [Snooze]. A plain error, and one whose own methods panic, is Retry with ok
// false: [OutcomeOf] decides, and so may middleware, which leaves answers as
// they are.
func ActionOf(err error) (action Action, ok bool) {
	v, _ := read(err)
	return v.action, v != plain
}

// What an error says that is not made by RetryAfter, Discard or Snooze.
var (
	done    = &answer{action: Done}
	settled = &answer{action: Done}
	plain   = &answer{action: Retry}
)

// read finds the answer in err, and returns err; where its own methods panic, an
// error of its text.
func read(err error) (v *answer, readable error) {
	if err == nil {
		return done, nil
	}
	defer func() {
		if recover() != nil {
			v, readable = plain, errors.New(ErrorText(err))
		}
	}()
	if errors.Is(err, Settled) {
		return settled, err
	}
	if said, ok := errors.AsType[*answer](err); ok {
		return said, err
	}
	return plain, err
}

// EndedByWorker reports whether ctx, a handler's, was ended by its worker, with
// [ErrShutdown] or [ErrLost]: then a plain error is its echo, and says nothing of the job.
func EndedByWorker(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrLost)
}

// Backoff is how long a job waits by default after its attempt (from 1) failed:
// 30 s doubled for each attempt before, plus 0 to 30 % at random. From the eighth
// attempt on it is 46 minutes to an hour.
func Backoff(attempt int) time.Duration {
	const base, limit = 30 * time.Second, time.Hour
	shift := min(max(attempt-1, 0), 7) // 30 s << 7 is beyond the limit
	d := min(base<<shift, limit/13*10)
	return d + time.Duration(rand.Int64N(int64(d)*3/10+1))
}
