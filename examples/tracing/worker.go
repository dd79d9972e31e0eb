package main

import (
	"context"
	"sync"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// worker runs the shop's jobs.
type worker struct {
	confirmed chan struct{} // gets one for each confirmation
	dismiss   func() error  // stops it and returns when it has; may be called again
	ended     chan struct{} // closed when it has, for whatever reason
	err       error         // with what; to be read once ended
}

// hire starts a worker. It lasts until it is dismissed or ctx ends.
func (s *shop) hire(ctx context.Context) *worker {
	ctx, stop := context.WithCancel(ctx)
	w := &worker{confirmed: make(chan struct{}, 1), ended: make(chan struct{})}
	mux := queue.NewMux()
	OrderConfirm.Handle(mux, func(ctx context.Context, job *queue.Job, c Confirmation) error {
		if err := s.confirm(ctx, c); err != nil {
			return err
		}
		select {
		case w.confirmed <- struct{}{}:
		default: // a second run of a job is one too many
		}
		return nil
	})
	go func() {
		defer close(w.ended)
		w.err = engine.Worker{
			Backend: s.jobs, // the instrumented one: claims and settlings are traced, too
			Handler: queue.Chain(mux, s.signals.errand.Handler),
			Name:    "worker-1",
		}.Run(ctx)
	}()
	w.dismiss = sync.OnceValue(func() error {
		stop()
		<-w.ended
		return w.err
	})
	return w
}

// confirm is what the job is for. Its span is a part of the trace of the request.
func (s *shop) confirm(ctx context.Context, c Confirmation) error {
	ctx, span := s.signals.tracers.Tracer("shop").Start(ctx, "send confirmation")
	defer span.End()
	_, err := s.db.ExecContext(ctx, `UPDATE orders SET confirmed_at = now() WHERE id = $1`, c.OrderID)
	return err
}

// awaitConfirmation waits until a handler is about to return.
func (w *worker) awaitConfirmation(ctx context.Context) error {
	select {
	case <-w.confirmed:
		return nil
	case <-w.ended:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
