package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Entry is an entry of an account's ledger.
type Entry struct {
	Account string
	Amount  int
}

// Book writes the entries of an account one at a time, in the order in which they were enqueued.
var Book = queue.Kind[Entry]{
	Name: "ledger.book", Queue: "ledger", Ordered: true,
	GroupBy: func(e Entry) string { return e.Account },
}

func ExampleKind_ordered() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	for _, e := range []Entry{{"ada", 100}, {"bob", 50}, {"ada", -30}, {"bob", -5}} {
		if err := q.Enqueue(ctx, nil, Book.New(e)); err != nil {
			log.Fatal(err)
		}
	}

	mux := queue.NewMux()
	balance := map[string]int{} // no entry of an account runs beside another one of the account
	Book.Handle(mux, func(ctx context.Context, job *queue.Job, e Entry) error {
		balance[e.Account] += e.Amount
		fmt.Println(e.Account, balance[e.Account])
		return nil
	})
	if _, err := q.Drain(ctx, mux); err != nil {
		log.Fatal(err)
	}
	// Output:
	// ada 100
	// bob 50
	// ada 70
	// bob 45
}

// A job that fails keeps its place until it has succeeded or is dead. Other groups go on.
func ExampleKind_orderedRetry() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{})
	for _, e := range []Entry{{"ada", 100}, {"ada", -30}, {"bob", 50}} {
		if err := q.Enqueue(ctx, nil, Book.New(e)); err != nil {
			log.Fatal(err)
		}
	}

	mux := queue.NewMux()
	Book.Handle(mux, func(ctx context.Context, job *queue.Job, e Entry) error {
		if e.Amount == 100 && job.Attempt == 1 {
			return queue.RetryAfter(50*time.Millisecond, errors.New("the bank is closed"))
		}
		fmt.Println(e.Account, e.Amount)
		if e.Amount == -30 {
			stop() // only for this example
		}
		return nil
	})
	w := engine.Worker{Backend: q, Handler: mux, Queues: []string{"ledger"}, Logger: slog.New(slog.DiscardHandler)}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// bob 50
	// ada 100
	// ada -30
}

// With HoldDead the next entry of an account waits for one that has failed for good.
func ExampleRule_onDead() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	err := q.SetRules(ctx, nil, queue.Rule{Queue: "ledger", OnDead: queue.HoldDead})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range []Entry{{"ada", 100}, {"ada", -30}, {"bob", 50}} {
		if err := q.Enqueue(ctx, nil, Book.New(e)); err != nil {
			log.Fatal(err)
		}
	}

	mux := queue.NewMux()
	isClosed := true
	Book.Handle(mux, func(ctx context.Context, job *queue.Job, e Entry) error {
		if e.Account == "ada" && isClosed {
			return queue.Discard(errors.New("the account is closed"))
		}
		fmt.Println(e.Account, e.Amount)
		return nil
	})
	if _, err := q.Drain(ctx, mux); err != nil {
		log.Fatal(err)
	}

	isClosed = false // a person has opened the account
	n, err := q.Redrive(ctx, nil, queue.Selection{Group: "ada", Status: queue.StatusHeld})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("redriven:", n)
	if _, err := q.Drain(ctx, mux); err != nil {
		log.Fatal(err)
	}
	// Output:
	// bob 50
	// redriven: 1
	// ada 100
	// ada -30
}
