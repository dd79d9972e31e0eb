package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// The first Ctrl-C or SIGTERM lets handlers finish. The second cancels them, and releases their
// jobs.
func ExampleWorker_halt() {
	logger := slog.New(slog.DiscardHandler)
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(context.Background(), nil, WelcomeEmail.New(Welcome{UserID: 42})); err != nil {
		fmt.Println(err)
	}

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	halt := make(chan struct{})
	go func() {
		<-signals
		cancel()
		<-signals
		close(halt)
	}()

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		signals <- os.Interrupt // as if somebody pressed Ctrl-C
		signals <- os.Interrupt // and again
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return ctx.Err()
	})
	err := engine.Worker{Backend: q, Handler: mux, Halt: halt, Logger: logger}.Run(ctx)
	fmt.Println("stopped:", err)
	// Output:
	// queue: worker is shutting down
	// stopped: <nil>
}
