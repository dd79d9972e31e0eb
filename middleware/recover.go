package middleware

import (
	"context"
	"runtime/debug"

	"github.com/errandhq/errand/queue"
)

// Recover turns a panic of what it wraps into a [*queue.PanicError], which holds
// the panic's value and stack. It is itself a [queue.Middleware].
//
// A [queue.Worker] makes the same of a panic that reaches it. Recover is for the
// middleware outside of it that looks at errors, such as [Retry] or a
// circuit breaker. A *queue.PanicError that is panicked again is returned as it is;
// runtime.Goexit passes through.
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

// panicError makes an error of a panic's value. Called while its stack is there.
func panicError(v any) *queue.PanicError {
	if p, ok := v.(*queue.PanicError); ok && p != nil {
		return p
	}
	return &queue.PanicError{Value: v, Stack: debug.Stack()}
}
