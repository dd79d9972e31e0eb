package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware/resilience"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

type Mail struct{ To string }

var SendMail = queue.NewKind[Mail]("mail.send")

func ExampleCircuitBreaker() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	for range 5 {
		if err := q.Enqueue(ctx, nil, SendMail.New(Mail{To: "alice@example.com"})); err != nil {
			log.Fatal(err)
		}
	}

	mux := queue.NewMux()
	SendMail.Handle(mux, func(ctx context.Context, job *queue.Job, m Mail) error {
		fmt.Println("sending")
		return errors.New("the mail server is down")
	})
	handler := queue.Chain(mux, resilience.CircuitBreaker(resilience.CircuitBreakerOptions{
		Failures: 2,
		Delay:    time.Minute,
		OnChange: func(kind string, from, to resilience.State) { fmt.Printf("%s: %s -> %s\n", kind, from, to) },
	}))
	if _, err := q.Drain(ctx, handler); err != nil { // in a program: engine.Worker{Backend: q, Handler: handler}.Run(ctx)
		log.Fatal(err)
	}

	jobs, _, err := q.Jobs(ctx, queue.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs { // the newest first
		fmt.Println("job", job.ID, job.Status, "after attempts:", job.Attempt)
	}
	// Output:
	// sending
	// sending
	// mail.send: closed -> open
	// job 5 pending after attempts: 0
	// job 4 pending after attempts: 0
	// job 3 pending after attempts: 0
	// job 2 pending after attempts: 1
	// job 1 pending after attempts: 1
}

func ExampleBulkhead() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	for range 6 {
		if err := q.Enqueue(ctx, nil, SendMail.New(Mail{To: "alice@example.com"})); err != nil {
			log.Fatal(err)
		}
	}

	var c crowd // counts how many run at once
	mux := queue.NewMux()
	mux.Handle(SendMail.Name, queue.Chain(
		queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			defer func() {
				if c.ran.Load() == 6 {
					stop()
				}
			}()
			return c.HandleJob(ctx, job)
		}),
		resilience.Bulkhead(2, resilience.BulkheadOptions{MaxWait: time.Second}),
	))
	if err := (engine.Worker{Backend: q, Handler: mux, Concurrency: 50}).Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ran:", c.ran.Load(), "at once:", c.most.Load())
	// Output: ran: 6 at once: 2
}
