package engine_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// A handler returns an output, and a caller waits for it.
func ExampleAwait() {
	type Receipt struct{ Total int }
	var charge = queue.NewKind[int]("charge")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := memory.New(memory.Options{})
	mux := queue.NewMux()
	charge.Handle(mux, func(ctx context.Context, job *queue.Job, cents int) error {
		if err := queue.SetProgress(ctx, "asking the bank"); err != nil {
			return err
		}
		return queue.SetOutput(ctx, Receipt{Total: cents})
	})
	go func() { _ = engine.Worker{Backend: q, Handler: mux, Logger: slog.New(slog.DiscardHandler)}.Run(ctx) }()

	job := charge.New(4200)
	if err := q.Enqueue(ctx, nil, job); err != nil {
		panic(err)
	}
	result, err := engine.Await(ctx, q, job.ID)
	if err != nil {
		panic(err) // ctx has ended, or the database cannot be reached
	}
	receipt, err := queue.Output[Receipt](result)
	if err != nil {
		panic(err) // the job is dead or cancelled, or has no output
	}
	fmt.Println(result.Status, receipt.Total)
	// Output: completed 4200
}
