package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
)

// BulkheadOptions configure [Bulkhead]. The zero value works.
type BulkheadOptions struct {
	// MaxWait is how long a job waits for a place; 0 means that it does not wait.
	MaxWait time.Duration
	// Snooze is how long a job that found no place is snoozed, plus up to a tenth at random; 0
	// means 1 s.
	Snooze time.Duration
}

const defaultSnooze = time.Second

// Bulkhead runs at most limit jobs of a kind at once in this process, so that one slow kind does
// not take all of a worker's slots. Each kind has limit places, shared by all handlers that the one
// Middleware wraps. For different limits, wrap the handlers of the kinds one by one. A job that
// finds no place waits for MaxWait and is then snoozed. If its context ends first, its error is the
// context's cause. The place is free again however the handler ends, also by a panic or
// runtime.Goexit.
//
// A waiting job occupies a slot of the worker, so keep MaxWait short. A snoozed job is claimed and
// released again and again, each time behind jobs that became due meanwhile. So a kind that often
// exceeds its limit is better off in a queue of its own, with an [engine.Worker] whose Concurrency
// is the limit: that worker claims only what it can run.
//
// Bulkhead panics if limit is below 1, or if a duration of o is below 0 or above a year.
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
			places := bulkheads.get(job.Kind)
			err := places.AcquirePermitWithMaxWait(ctx, o.MaxWait)
			switch {
			case errors.Is(err, bulkhead.ErrFull):
				return fmt.Errorf("resilience: bulkhead of kind %q is full: %w", job.Kind, queue.Snooze(spread(o.Snooze)))
			case err != nil:
				return handling.ChainFault(fmt.Errorf("resilience: waiting for the bulkhead of kind %q: %w", job.Kind, context.Cause(ctx)))
			}
			defer places.ReleasePermit()
			return next.HandleJob(ctx, job)
		})
	}
}
