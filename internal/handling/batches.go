package handling

import (
	"context"
	"sync"
)

// Batches are the calls that the handlers of one worker collect jobs for.
type Batches struct {
	Most     int             // the most jobs of a call: the worker's Concurrency
	Stopping <-chan struct{} // closed when no more jobs are started

	Mu   sync.Mutex
	Open map[any]any // the batches that still take jobs, for package queue
}

type batchesKey struct{}

// WithBatches returns a context in which handlers collect jobs.
func WithBatches(ctx context.Context, most int, stopping <-chan struct{}) context.Context {
	return context.WithValue(ctx, batchesKey{}, &Batches{Most: most, Stopping: stopping, Open: make(map[any]any)})
}

// BatchesOf returns the Batches of a handler's context, or nil outside of a worker.
func BatchesOf(ctx context.Context) *Batches {
	b, _ := ctx.Value(batchesKey{}).(*Batches)
	return b
}
