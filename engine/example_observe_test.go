package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// Observe is called for each event of a worker.
func ExampleWorker_observe() {
	ctx, stop := context.WithCancel(context.Background())
	q := memory.New(memory.Options{})
	mux := queue.NewMux()
	mux.Handle("charge", queue.HandlerFunc(func(context.Context, *queue.Job) error {
		stop() // the worker stops after this job
		return queue.Discard(errors.New("card declined"))
	}))
	if err := q.Enqueue(ctx, nil, &queue.Job{Kind: "charge"}); err != nil {
		panic(err)
	}
	worker := engine.Worker{Backend: q, Handler: mux, Observe: func(e queue.Event) {
		fmt.Println(e.Type, e.Job.Kind, e.Err)
	}}
	worker.Logger = slog.New(slog.DiscardHandler)
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// started charge <nil>
	// dead charge card declined
}
