package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/queue"
)

// Backoff sets how long a failed job waits before it is retried, in place of the worker's own
// back-off ([queue.Backoff]: 30 s and more). How often a job is retried is decided by [Retry] and
// by [queue.Job].MaxAttempts.
//
// An error may ask for its own delay, as a server does with 429 Too Many Requests. If errors.As
// finds in it an
//
//	interface{ RetryAfter() time.Duration }
//
// that returns more than 0, the job waits exactly that long, even beyond the policy's Cap.
//
// Backoff does not change an answer that the handler gave itself ([queue.RetryAfter],
// [queue.Discard], [queue.Snooze], [queue.ErrSettled]); so of two Backoffs the inner one decides.
// It does not change the error of a handler whose context ended with [queue.ErrShutdown] or
// [queue.ErrLost] either.
//
// Backoff panics if p is nil, or if a field of one of this package's policies is out of range.
func Backoff(p Policy) queue.Middleware {
	if p == nil {
		panic("middleware: Backoff: p is nil")
	}
	if c, ok := p.(checker); ok {
		if err := c.check(); err != nil {
			panic(fmt.Sprintf("middleware: Backoff: %v", err))
		}
	}
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			err := next.HandleJob(ctx, job)
			if _, answered := queue.ActionOf(err); answered || queue.EndedByWorker(ctx) {
				return err
			}
			d, err := askSafely(err, askedFor)
			if d <= 0 {
				d = p.Delay(max(job.Attempt, 1))
			}
			return &backedOff{queue.RetryAfter(d, err)}
		})
	}
}

// askedFor returns the delay that the error itself asks for; 0 if it asks for none.
func askedFor(err error) time.Duration {
	var asks interface{ RetryAfter() time.Duration }
	if errors.As(err, &asks) {
		return asks.RetryAfter()
	}
	return 0
}

// backedOff marks a RetryAfter that Backoff made of a plain error. It sets the delay; Retry still
// decides whether the job is retried.
type backedOff struct{ error }

func (b *backedOff) Unwrap() error { return b.error }

func isBackedOff(err error) bool {
	_, ok := errors.AsType[*backedOff](err)
	return ok
}

// Policy chooses delays.
type Policy interface {
	// Delay returns how long a job waits after this attempt, counted from 1, has failed. A delay
	// below 0 means 0. Delay may be called concurrently and must not block.
	Delay(attempt int) time.Duration
}

// checker is a policy whose fields can be out of range.
type checker interface{ check() error }

const (
	defaultBase   = 30 * time.Second
	defaultFactor = 2
	defaultCap    = time.Hour
)

// Exponential is a [Policy] whose delays grow by a factor: Base, Base·Factor, Base·Factor², and so
// on up to Cap. The zero value does what [queue.Backoff] does: 30 s, 60 s, 2 min and so on up to an
// hour.
type Exponential struct {
	Base   time.Duration // the first delay; 0 means 30 s
	Factor float64       // from one delay to the next, at least 1; 0 means 2
	Cap    time.Duration // the longest delay, jitter included, at least Base; 0 means an hour
	Jitter Jitter
}

// Delay implements [Policy]. An attempt below 1 counts as 1.
func (p Exponential) Delay(attempt int) time.Duration {
	base, limit := cmp.Or(p.Base, defaultBase), cmp.Or(p.Cap, defaultCap)
	d := limit
	grown := float64(base) * math.Pow(cmp.Or(p.Factor, defaultFactor), float64(max(attempt, 1)-1))
	if grown < float64(limit) { // not so for +Inf either
		d = time.Duration(grown)
	}
	return p.Jitter.spread(d, limit)
}

func (p Exponential) check() error {
	if p.Factor != 0 && !(p.Factor >= 1 && p.Factor <= math.MaxFloat64) { // not so for NaN either
		return fmt.Errorf("Exponential.Factor %v: at least 1 and finite, or 0 for %d", p.Factor, defaultFactor)
	}
	return checkDelays("Exponential", p.Base, p.Cap, p.Jitter)
}

// Linear is a [Policy] whose delays grow by a constant: Base, Base+Step, Base+2·Step, and so on up
// to Cap. The zero value waits 30 s, 60 s, 90 s and so on up to an hour.
type Linear struct {
	Base   time.Duration // the first delay; 0 means 30 s
	Step   time.Duration // from one delay to the next; 0 means Base
	Cap    time.Duration // the longest delay, jitter included, at least Base; 0 means an hour
	Jitter Jitter
}

// Delay implements [Policy]. An attempt below 1 counts as 1.
func (p Linear) Delay(attempt int) time.Duration {
	base, limit := cmp.Or(p.Base, defaultBase), cmp.Or(p.Cap, defaultCap)
	step := cmp.Or(p.Step, base)
	d := limit
	if steps := time.Duration(max(attempt, 1) - 1); steps <= (limit-base)/step {
		d = base + steps*step
	}
	return p.Jitter.spread(d, limit)
}

func (p Linear) check() error {
	if p.Step < 0 {
		return fmt.Errorf("Linear.Step %v: at least 0", p.Step)
	}
	return checkDelays("Linear", p.Base, p.Cap, p.Jitter)
}

// Fixed is a [Policy] whose delays are all the same, apart from their jitter. The zero value waits
// 30 s.
type Fixed struct {
	Base   time.Duration // the delay; 0 means 30 s
	Jitter Jitter
}

// Delay implements [Policy].
func (p Fixed) Delay(int) time.Duration {
	return p.Jitter.spread(cmp.Or(p.Base, defaultBase), math.MaxInt64)
}

func (p Fixed) check() error { return checkDelays("Fixed", p.Base, math.MaxInt64, p.Jitter) }

// checkDelays checks the fields that the policies share.
func checkDelays(policy string, base, limit time.Duration, j Jitter) error {
	switch {
	case base < 0:
		return fmt.Errorf("%s.Base %v: at least 0", policy, base)
	case limit < 0:
		return fmt.Errorf("%s.Cap %v: at least 0", policy, limit)
	case cmp.Or(base, defaultBase) > cmp.Or(limit, defaultCap):
		return fmt.Errorf("%s.Cap %v: at least Base, %v", policy, cmp.Or(limit, defaultCap), cmp.Or(base, defaultBase))
	case j > NoJitter:
		return fmt.Errorf("%s.Jitter %d: not a Jitter", policy, j)
	}
	return nil
}

// Jitter spreads delays at random, so that jobs that failed together are not retried together. No
// delay exceeds its policy's Cap.
type Jitter uint8

const (
	// ProportionalJitter adds up to 30 % to a delay. It is the zero value. A delay close to Cap is
	// shortened first, at most to Cap/1.3, so that delays at Cap are spread as widely as those
	// below it.
	ProportionalJitter Jitter = iota
	// FullJitter draws from 0 to the delay.
	FullJitter
	// EqualJitter draws from half the delay to the delay.
	EqualJitter
	// NoJitter leaves the delay as it is.
	NoJitter
)

// spread applies the jitter to d, which is at most limit.
func (j Jitter) spread(d, limit time.Duration) time.Duration {
	limit = max(limit, 0)
	d = min(max(d, 0), limit)
	switch j {
	case ProportionalJitter:
		d = min(d, limit-limit/13*3)
		d += min(upTo(d/10*3+d%10*3/10), limit-d)
	case FullJitter:
		d = upTo(d)
	case EqualJitter:
		d = d/2 + upTo(d-d/2)
	}
	return d
}

// upTo draws from 0 to most, both included.
func upTo(most time.Duration) time.Duration {
	return time.Duration(rand.Uint64N(uint64(max(most, 0)) + 1))
}
