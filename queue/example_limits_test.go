package queue_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Webhook is a call to make for a tenant.
type Webhook struct{ Tenant, URL string }

var SendWebhook = queue.Kind[Webhook]{
	Name: "webhook.send", Queue: "webhooks",
	GroupBy: func(w Webhook) string { return w.Tenant },
}

// Tenants take turns, and at most two webhooks of one tenant are sent at once, over all workers.
func ExampleRule() {
	q := queuetest.New(queuetest.Options{})
	ctx, cancel := context.WithCancel(context.Background())

	err := q.SetRules(ctx, nil,
		queue.Rule{Queue: "webhooks", Running: 40, PerGroup: 2},
	)
	if err != nil {
		fmt.Println(err)
	}
	_, err = q.Pause(ctx, nil, queue.Target{Group: "initech", InQueue: "webhooks"}, true)
	if err != nil {
		fmt.Println(err)
	}
	for range 20 {
		_ = q.Enqueue(ctx, nil, SendWebhook.New(Webhook{"flood", "https://flood.example"}))
	}
	_ = q.Enqueue(ctx, nil, SendWebhook.New(Webhook{"initech", "https://initech.example"}))
	_ = q.Enqueue(ctx, nil, SendWebhook.New(Webhook{"small", "https://small.example"}))

	var mu sync.Mutex
	running, most, sent := 0, 0, 0
	mux := queue.NewMux()
	SendWebhook.Handle(mux, func(ctx context.Context, job *queue.Job, w Webhook) error {
		mu.Lock()
		defer mu.Unlock()
		if running++; w.Tenant == "flood" {
			most = max(most, running)
		}
		mu.Unlock()
		// send it
		mu.Lock()
		running--
		if sent++; sent == 21 {
			cancel()
		}
		return nil
	})
	w := engine.Worker{Backend: q, Handler: mux, Queues: []string{"webhooks"}, Concurrency: 10}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("sent:", sent, "within the limit:", most <= 3)
	// Output: sent: 21 within the limit: true
}
