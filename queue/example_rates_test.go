package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Sync is a call of a partner's API on behalf of an account.
type Sync struct {
	Account string
	Orders  int
}

var SyncOrders = queue.Kind[Sync]{
	Name: "orders.sync", Queue: "partner",
	GroupBy: func(s Sync) string { return s.Account },
}

// The partner lets us send 100 requests a second, and 10 for each account.
func ExampleRate() {
	q := queuetest.New(queuetest.Options{})
	ctx, cancel := context.WithCancel(context.Background())

	err := q.SetRules(ctx, nil, queue.Rule{
		Queue:     "partner",
		Rate:      queue.Rate{Jobs: 100},
		GroupRate: queue.Rate{Jobs: 10, Per: time.Second, Burst: 2},
	})
	if err != nil {
		fmt.Println(err)
	}
	for i := range 4 {
		job := SyncOrders.New(Sync{Account: "acme", Orders: i})
		job.Cost = 1 + i%2 // how many requests it makes
		_ = q.Enqueue(ctx, nil, job)
	}

	began, synced, turnedAway := time.Now(), 0, false
	mux := queue.NewMux()
	SyncOrders.Handle(mux, func(ctx context.Context, job *queue.Job, s Sync) error {
		status, wait := http.StatusOK, time.Duration(0) // of the partner's answer
		if !turnedAway {
			turnedAway, status, wait = true, http.StatusTooManyRequests, 50*time.Millisecond
		}
		if status == http.StatusTooManyRequests {
			return queue.Throttle(wait, errors.New("the partner is busy"))
		}
		if synced++; synced == 4 {
			cancel()
		}
		return nil
	})
	w := engine.Worker{Backend: q, Handler: mux, Queues: []string{"partner"}, Concurrency: 1}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("synced:", synced, "at the rate:", time.Since(began) > 300*time.Millisecond)
	// Output: synced: 4 at the rate: true
}
