package main

import (
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// All jobs are looked at, however many pages there are of them, and of a worker's only those it
// has.
func TestOrdersOfJobs(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	s := &shop{jobs: q}
	const orders = 150
	for id := range int64(orders) {
		err := q.Enqueue(t.Context(), nil, OrderConfirm.New(Confirmation{OrderID: id}), OrderWebhook.New(Webhook{OrderID: id}))
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.enqueued(t.Context())
	if err != nil || len(all) != orders || total(all) != 2*orders {
		t.Errorf("got %d jobs of %d orders, %v, want %d of %d", total(all), len(all), err, 2*orders, orders)
	}
	for _, worker := range []string{"worker-1", "worker-2"} {
		request := queue.ClaimRequest{Queues: []string{OrderWebhook.Queue}, Limit: 50, Lease: time.Minute, Worker: worker}
		if _, err := q.Claim(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	held, err := s.heldBy(t.Context(), "worker-1")
	if err != nil || len(held) != 50 || held[0] != 1 || held[49] != 1 {
		t.Errorf("got %v, %v, want the orders 0 to 49", held, err)
	}
}
