package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Of ten claims six begin with the queue orders, three with emails and one with reports.
func ExampleWorker_weights() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	for _, name := range []string{"orders", "emails", "reports"} {
		for range 10 {
			job := WelcomeEmail.New(Welcome{UserID: 42})
			job.Queue = name
			if err := q.Enqueue(ctx, nil, job); err != nil {
				log.Fatal(err)
			}
		}
	}

	ran := 0
	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Print(job.Queue, " ")
		ran++
		if ran == 10 {
			stop() // only for this example
		}
		return nil
	})
	err := engine.Worker{
		Backend:     q,
		Handler:     mux,
		Queues:      []string{"orders", "emails", "reports"},
		Weights:     map[string]int{"orders": 6, "emails": 3, "reports": 1},
		Concurrency: 1, // only for this example: one job a claim
		Prefetch:    -1,
	}.Run(ctx)
	fmt.Println("stopped:", err)
	// Output:
	// orders emails orders orders emails orders reports orders emails orders stopped: <nil>
}

// A job of half an hour's head start comes before the jobs that were enqueued in the last half
// hour, and behind older ones.
func ExampleJob_headStart() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	bulk, paying := WelcomeEmail.New(Welcome{UserID: 1}), WelcomeEmail.New(Welcome{UserID: 2})
	paying.ScheduledAt = time.Now().Add(-30 * time.Minute)
	if err := q.Enqueue(ctx, nil, bulk, paying); err != nil {
		log.Fatal(err)
	}

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Println("user", w.UserID)
		return nil
	})
	if _, err := q.Drain(ctx, mux); err != nil {
		log.Fatal(err)
	}
	// Output:
	// user 2
	// user 1
}
