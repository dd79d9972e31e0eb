package router_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// The queue "clicks" lives on a backend of its own. A click is enqueued in the transaction of the
// home, with a mail that stays there, and one worker serves both.
func Example() {
	home, other := memory.New(memory.Options{}), memory.New(memory.Options{}) // in production postgres.New, …
	q, err := router.New(router.Routes{"clicks": other, "*": home}, router.Options{})
	if err != nil {
		log.Fatal(err)
	}
	tx, err := home.Begin(context.Background()) // in production db.BeginTx
	if err != nil {
		log.Fatal(err)
	}
	mail, click := &queue.Job{Kind: "mail"}, &queue.Job{Kind: "click", Queue: "clicks"}
	if err := q.Enqueue(context.Background(), tx, mail, click); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kinds := make(chan string, 2)
	go func() {
		fmt.Println(<-kinds, <-kinds)
		cancel()
	}()
	err = engine.Worker{Backend: q, Queues: []string{"clicks", queue.DefaultQueue}, Handler: queue.HandlerFunc(
		func(_ context.Context, job *queue.Job) error {
			if job.Queue == "clicks" {
				time.Sleep(10 * time.Millisecond)
			}
			kinds <- job.Kind
			return nil
		})}.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Output: mail click
}
