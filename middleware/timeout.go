package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// Timeout gives the handler a context that ends after d, with the cause [context.DeadlineExceeded].
// The Timeout of [engine.Worker] and [queue.Kind] covers the whole chain; this one covers what is
// inside of it, and its error says that time ran out.
//
// If the handler returns an error after that deadline, errors.Is finds context.DeadlineExceeded in
// it: Timeout wraps an error that does not say so itself. The wrapped error keeps its answer, and
// errors.Is and errors.As still find what is in it. nil stays nil, since the work was done, and
// [queue.ErrSettled] stays as it is. So does any error if the context that Timeout got has ended
// first: by a shutdown, a lost job or an earlier deadline.
//
// Timeout waits for the handler: one that ignores its context keeps its slot. Timeout panics if d
// is not above 0.
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
			says, err := askSafely(err, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
			if says {
				return err
			}
			return fmt.Errorf("middleware: Timeout after %v: %w: %w", d, context.DeadlineExceeded, err)
		})
	}
}

// timedOut reports whether ctx was ended by its own deadline, and not by one that it got from
// outer.
func timedOut(ctx, outer context.Context) bool {
	own, _ := ctx.Deadline()
	limit, limited := outer.Deadline()
	return ctx.Err() == context.DeadlineExceeded && (!limited || own.Before(limit))
}
