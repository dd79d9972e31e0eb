package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// Timeout gives what it wraps a context that ends after d, with the cause
// [context.DeadlineExceeded], unless it ends before. It panics if d is not above
// 0. The Timeout of [queue.Worker] and [queue.Kind] covers the whole chain; this
// one covers what is inside it, and lets the error say that time ran out.
//
// An error that comes after that deadline is one that errors.Is finds to be
// context.DeadlineExceeded: where the handler's is not, it is wrapped, and keeps
// its answer and what else errors.Is and errors.As find in it. nil stays nil,
// since the work was done, and [queue.Settled] stays as it is. So does any error if
// the context that Timeout got has ended first, because of a shutdown, a lost job
// or an earlier deadline.
//
// Timeout waits for the handler: one that ignores its context keeps its slot.
func Timeout(d time.Duration) queue.Middleware {
	if d <= 0 {
		panic(fmt.Sprintf("middleware: Timeout: d %v: above 0", d))
	}
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(outer context.Context, job *queue.Job) error {
			ctx, cancel := context.WithTimeout(outer, d)
			defer cancel()
			err := next.HandleJob(ctx, job)
			if action, _ := queue.ActionOf(err); action == queue.Done || !timedOut(ctx, outer) {
				return err
			}
			says, err := examine(err, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
			if says {
				return err
			}
			return fmt.Errorf("middleware: Timeout after %v: %w: %w", d, context.DeadlineExceeded, err)
		})
	}
}

// timedOut reports whether ctx was ended by its own deadline, which is outer's
// where that is earlier.
func timedOut(ctx, outer context.Context) bool {
	own, _ := ctx.Deadline()
	limit, limited := outer.Deadline()
	return ctx.Err() == context.DeadlineExceeded && (!limited || own.Before(limit))
}
