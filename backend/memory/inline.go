package memory

import (
	"context"
	"sync/atomic"

	"github.com/errandhq/errand/queue"
)

// inlineKey is the context key by which a handler's context shows that this queue runs it inline.
// Its value is an *atomic.Bool that reports whether the handler has returned.
type inlineKey struct{ q *Queue }

// runInline runs all due jobs, if Options say so. ctx is the enqueuer's. If the enqueuer is itself
// a handler that is run inline, runInline does nothing: the loop that runs that handler looks for
// due jobs once it has returned.
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

// markInline marks the handlers' contexts as inline until the handlers return. A goroutine that a
// handler leaves behind then enqueues like any other.
func (q *Queue) markInline(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		returned := new(atomic.Bool)
		defer returned.Store(true)
		return next.HandleJob(context.WithValue(ctx, inlineKey{q}, returned), job)
	})
}
