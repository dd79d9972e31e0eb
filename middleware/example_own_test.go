package middleware_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/errandhq/errand/queue"
)

// Alert is a middleware of an application's own: it tells a person which jobs their handlers give
// up.
func Alert(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		err := next.HandleJob(ctx, job)
		if action, ok := queue.ActionOf(err); ok && action == queue.Dead {
			fmt.Printf("job %d is given up: %v\n", job.ID, err)
		}
		return err // as it is: the worker reads the answer from it
	})
}

// A middleware of an application's own, around a Mux.
func Example_own() {
	mux := queue.NewMux()
	queue.NewKind[int]("double").Handle(mux, func(context.Context, *queue.Job, int) error {
		return queue.Discard(errors.New("no such account"))
	})
	handler := queue.Chain(mux, Alert)
	_ = handler.HandleJob(context.Background(), &queue.Job{ID: 7, Kind: "double", Payload: []byte("1")})
	// Output: job 7 is given up: no such account
}
