package queue_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// ShowFleet writes which workers there are, and what they run.
func ShowFleet(ctx context.Context, out io.Writer, fleet driver.Fleet) error {
	workers, err := fleet.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		state := "live"
		switch {
		case w.Vanished:
			state = "vanished"
		case !w.DrainingAt.IsZero():
			state = "draining"
		}
		fmt.Fprintf(out, "%s: %s, %d of %d busy, serves %v\n", w.Name, state, w.Busy, w.Concurrency, w.Queues)
	}
	runs, err := fleet.Runs(ctx, 10)
	if err != nil {
		return err
	}
	for _, r := range runs {
		fmt.Fprintf(out, "%s has job %d of kind %s\n", r.Worker, r.ID, r.Kind)
	}
	return nil
}

func ExampleWorkerRecord() {
	ctx, stop := context.WithCancel(context.Background())
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	_ = q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42}))
	finish := make(chan struct{})
	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(context.Context, *queue.Job, Welcome) error {
		<-finish
		return nil
	})
	done := make(chan error)
	go func() { done <- engine.Worker{Backend: q, Handler: mux, Name: "mailer"}.Run(ctx) }()

	for workers, _ := q.Workers(ctx); len(workers) == 0; workers, _ = q.Workers(ctx) {
		time.Sleep(10 * time.Millisecond) // the first report is sent after about a second
	}
	_ = ShowFleet(ctx, os.Stdout, q)
	close(finish)
	stop()
	if err := <-done; err != nil {
		fmt.Println(err)
	}
	_ = ShowFleet(context.Background(), os.Stdout, q) // a worker that has stopped is not shown
	// Output:
	// mailer: live, 1 of 10 busy, serves [default]
	// mailer has job 1 of kind email.welcome
}
