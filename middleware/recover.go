package middleware

import (
	"context"
	"runtime/debug"

	"github.com/errandhq/errand/queue"
)

// Recover turns a panic of the handler into a [*queue.PanicError], which holds the panic's value
// and stack. It is itself a [queue.Middleware].
//
// A [queue.Worker] does the same with a panic that reaches it. Use Recover for middleware outside
// of it that looks at errors, such as [Retry] or a circuit breaker. If the value is already a
// *queue.PanicError, Recover returns it as it is. runtime.Goexit passes through.
func Recover(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = panicError(v)
			}
		}()
		return next.HandleJob(ctx, job)
	})
}

// panicError makes an error of a panic's value. It must be called by the deferred function that
// recovered, where the stack can still be read.
func panicError(v any) *queue.PanicError {
	if p, ok := v.(*queue.PanicError); ok && p != nil {
		return p
	}
	return &queue.PanicError{Value: v, Stack: debug.Stack()}
}
