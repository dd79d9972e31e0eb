package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Two reports hold the two slots of their queue until all emails are sent: the other slots are left
// to the emails.
func ExampleWorker_slots() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	for range 20 {
		for _, name := range []string{"reports", "emails"} {
			job := WelcomeEmail.New(Welcome{UserID: 42})
			job.Queue = name
			if err := q.Enqueue(ctx, nil, job); err != nil {
				log.Fatal(err)
			}
		}
	}

	sent := make(chan struct{}, 20)
	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		if job.Queue == "reports" {
			<-ctx.Done() // a slow job
			return ctx.Err()
		}
		sent <- struct{}{}
		return nil
	})
	go func() {
		for range cap(sent) {
			<-sent
		}
		fmt.Println("all emails are sent")
		stop() // only for this example
	}()
	err := engine.Worker{
		Backend:     q,
		Handler:     mux,
		Queues:      []string{"reports", "emails"},
		Slots:       map[string]int{"reports": 2},
		Concurrency: 10,
		Grace:       1, // only for this example: reports never end
	}.Run(ctx)
	fmt.Println("stopped:", err)
	// Output:
	// all emails are sent
	// stopped: <nil>
}
