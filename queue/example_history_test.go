package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// An Inspector tells why the earlier attempts of a job failed.
func ExampleRecord_history() {
	ctx := context.Background()
	q := memory.New(memory.Options{})
	job := &queue.Job{Kind: "charge"}
	if err := q.Enqueue(ctx, nil, job); err != nil {
		panic(err)
	}
	for _, text := range []string{"connection refused", "card declined"} {
		claimed, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "host-1"})
		if err != nil {
			panic(err)
		}
		if _, err := q.Settle(ctx, nil, queue.Outcome{Job: claimed[0], Action: queue.Retry, Err: errors.New(text)}); err != nil {
			panic(err)
		}
	}
	printHistory(ctx, q, job.ID)
	// Output:
	// attempt 1 by host-1: connection refused
	// attempt 2 by host-1: card declined
}

func printHistory(ctx context.Context, inspector driver.Inspector, id int64) {
	record, _, err := inspector.Job(ctx, id)
	if err != nil {
		panic(err)
	}
	for _, f := range record.History {
		fmt.Printf("attempt %d by %s: %s\n", f.Attempt, f.Worker, f.Error)
	}
}
