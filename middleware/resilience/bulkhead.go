package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"

	"github.com/errandhq/errand/queue"
)

// BulkheadOptions are the choices of [Bulkhead]; the zero value is good.
type BulkheadOptions struct {
	// MaxWait is how long a job waits for another of its kind to end; 0 means that
	// it does not wait.
	MaxWait time.Duration
	// Snooze is how long a job is put off that has found no place, and up to a tenth
	// longer; 0 means 1 s.
	Snooze time.Duration
}

const defaultSnooze = time.Second

// Bulkhead runs at most limit jobs of a kind at once in this process, so that one
// slow kind does not take all of a worker's slots. Each kind has as many places, for
// all that the one Middleware wraps; for different limits, wrap the handlers of the
// kinds one by one. A job beyond the limit waits for MaxWait and is then snoozed.
// If its context ends first, its error is the context's cause. A place is free
// again however the handler ends, by a panic or runtime.Goexit too.
//
// A job that waits occupies a slot of the worker: keep MaxWait short. A job that is
// snoozed is claimed and given back again and again, each time behind those that have
// come due meanwhile. So a kind that often has more jobs than its limit is better
// off in a queue of its own with a [queue.Worker] of its own, whose Concurrency is
// the limit: that one claims only what it can run.
//
// Bulkhead panics if limit is not above 0, or a duration of o is below 0 or above a
// year.
func Bulkhead(limit int, o BulkheadOptions) queue.Middleware {
	if limit < 1 {
		panic(fmt.Sprintf("resilience: Bulkhead: limit %d: at least 1", limit))
	}
	checkDuration("BulkheadOptions.MaxWait", o.MaxWait)
	checkDuration("BulkheadOptions.Snooze", o.Snooze)
	o.Snooze = cmp.Or(o.Snooze, defaultSnooze)
	bulkheads := newPerKind(func(string) bulkhead.Bulkhead[any] { return bulkhead.New[any](uint(limit)) })
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			places := bulkheads.of(job.Kind)
			err := places.AcquirePermitWithMaxWait(ctx, o.MaxWait)
			switch {
			case errors.Is(err, bulkhead.ErrFull):
				return fmt.Errorf("resilience: bulkhead of kind %q is full: %w", job.Kind, queue.Snooze(spread(o.Snooze)))
			case err != nil:
				return fmt.Errorf("resilience: waiting for the bulkhead of kind %q: %w", job.Kind, context.Cause(ctx))
			}
			defer places.ReleasePermit()
			return next.HandleJob(ctx, job)
		})
	}
}
