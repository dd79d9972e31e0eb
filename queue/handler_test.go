package queue_test

import (
	"context"
	"slices"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestChain: the first middleware is the outermost, and MuxOf finds the Mux within.
func TestChain(t *testing.T) {
	var order []string
	mark := func(name string) queue.Middleware {
		return func(next queue.Handler) queue.Handler {
			return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
				order = append(order, name)
				return next.HandleJob(ctx, job)
			})
		}
	}
	mux := queue.NewMux()
	mux.Handle("k", queue.HandlerFunc(func(context.Context, *queue.Job) error {
		order = append(order, "handler")
		return nil
	}))
	h := queue.Chain(mux, mark("a"), mark("b"))
	if err := h.HandleJob(t.Context(), &queue.Job{Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "handler"}; !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
	if found, ok := queue.MuxOf(h); !ok || found != mux {
		t.Errorf("MuxOf: got %v, %v, want the Mux within", found, ok)
	}
}

// TestChainEnqueuer: the first middleware is the outermost, and As finds the Enqueuer within.
func TestChainEnqueuer(t *testing.T) {
	var order []string
	mark := func(name string) queue.EnqueueMiddleware {
		return func(next queue.Enqueuer) queue.Enqueuer {
			return queue.EnqueuerFunc(func(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
				order = append(order, name)
				return next.Enqueue(ctx, db, jobs...)
			})
		}
	}
	q := queuetest.New(queuetest.Options{})
	e := queue.ChainEnqueuer(q, mark("a"), mark("b"))
	enqueue(t, e, newTasks(2)...)
	if want := []string{"a", "b"}; !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
	wantCount(t, q, queue.StatusPending, 2)
	if _, ok := driver.As[driver.Inspector](e); !ok {
		t.Error("As does not find what the innermost can do")
	}
}
