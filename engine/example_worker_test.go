package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Welcome is the payload of WelcomeEmail.
type Welcome struct{ UserID int64 }

// WelcomeEmail is declared once. The code that enqueues and the code that handles both use it.
var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")

func ExampleWorker() {
	// In a program: signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM).
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42})); err != nil {
		log.Fatal(err)
	}

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Println("welcome, user", w.UserID)
		stop() // only for this example: the worker finishes the jobs that it has started
		return nil
	})
	err := engine.Worker{
		Backend:     q,
		Handler:     mux,
		Queues:      []string{"critical", queue.DefaultQueue},
		Concurrency: 50,
	}.Run(ctx)
	fmt.Println("stopped:", err)
	// Output:
	// welcome, user 42
	// stopped: <nil>
}

// OnDead tells a person of jobs that will not run again.
func ExampleWorker_onDead() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42})); err != nil {
		log.Fatal(err)
	}

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		return queue.Discard(errors.New("no such user"))
	})
	err := engine.Worker{
		Backend: q,
		Handler: mux,
		Logger:  slog.New(slog.DiscardHandler),
		OnDead: func(ctx context.Context, job *queue.Job, err error) {
			defer stop() // only for this example
			if errors.Is(err, queue.ErrLost) {
				fmt.Printf("job %d (%s) has crashed its workers\n", job.ID, job.Kind)
				return
			}
			fmt.Printf("job %d (%s) has failed: %v\n", job.ID, job.Kind, err) // in a program: send an alert
		},
	}.Run(ctx)
	fmt.Println("stopped:", err)
	// Output:
	// job 1 (email.welcome) has failed: no such user
	// stopped: <nil>
}
