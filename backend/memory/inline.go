package memory

import (
	"context"
	"sync/atomic"

	"github.com/errandhq/errand/queue"
)

// inlineKey is the key of the context that a handler gets which this queue runs
// inline. Its value is an *atomic.Bool: whether the handler has returned.
type inlineKey struct{ q *Queue }

// runInline runs whatever is due, where Options say so. ctx is the enqueuer's. If
// that is a handler that is run inline itself, it does nothing: the loop that runs the
// handler looks for what is due once that has returned.
func (q *Queue) runInline(ctx context.Context) {
	if q.opts.Inline == nil {
		return
	}
	if returned, ok := ctx.Value(inlineKey{q}).(*atomic.Bool); ok && !returned.Load() {
		return
	}
	h := queue.Chain(q.opts.Inline, q.markInline)
	_, _ = q.Drain(context.Background(), h) // its only error is the end of its context
}

// markInline is a middleware whose handlers' contexts are marked as inline until
// they return: a goroutine that a handler has left behind enqueues like any other.
func (q *Queue) markInline(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		returned := new(atomic.Bool)
		defer returned.Store(true)
		return next.HandleJob(context.WithValue(ctx, inlineKey{q}, returned), job)
	})
}
