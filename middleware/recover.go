package middleware

import (
	"context"

	"github.com/errandhq/errand/queue"
)

// Recover turns a panic of the handler into a [*queue.PanicError], which holds the panic's value
// and stack. It is itself a [queue.Middleware].
//
// An [engine.Worker] does the same with a panic that reaches it. Use Recover for middleware outside
// of it that looks at errors, such as [Retry] or a circuit breaker. If the value is already a
// *queue.PanicError, Recover returns it as it is. runtime.Goexit passes through.
func Recover(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = queue.RecoveredPanic(v)
			}
		}()
		return next.HandleJob(ctx, job)
	})
}
