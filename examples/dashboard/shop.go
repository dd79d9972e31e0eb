package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// The kinds of the shop's jobs.
var (
	Confirm = queue.Kind[Order]{Name: "order.confirm", Queue: "mail", Timeout: 10 * time.Second}
	Deliver = queue.Kind[Order]{
		Name: "webhook.deliver", Queue: "webhooks", MaxAttempts: 3, Timeout: 10 * time.Second,
		GroupBy: func(o Order) string { return o.Partner },
	}
	Report = queue.Kind[struct{}]{Name: "report.sales", Queue: "reports", Timeout: time.Minute}
	Export = queue.NewKind[Order]("tax.export") // in a queue that no worker serves
)

// Order is the payload of most jobs.
type Order struct {
	Number  int    `json:"number"`
	Partner string `json:"partner"`
	Address string `json:"address"`
}

const (
	partners   = 8
	badPartner = "partner-3" // is often down
	interval   = 250 * time.Millisecond
)

// backend is what the shop needs of a backend.
type backend interface {
	driver.Ruler
	driver.Scheduler
}

// work sets the rules and the schedule, takes orders and runs the jobs until ctx ends.
func work(ctx context.Context, q queue.Queue) error {
	b, ok := driver.As[backend](q)
	if !ok {
		return fmt.Errorf("%T has no rules or no schedules", q)
	}
	limits := queue.Rule{Queue: Deliver.Queue, Running: 10, PerGroup: 2, GroupRate: queue.Rate{Jobs: 5}}
	if err := b.SetRules(ctx, nil, limits); err != nil {
		return err
	}
	schedules := []queue.Schedule{Report.Schedule("sales-report", "@every 20s", struct{}{})}
	if _, err := b.DeclareSchedules(ctx, nil, queue.Declaration{Schedules: schedules}); err != nil {
		return err
	}
	exports := make([]*queue.Job, 3)
	for i := range exports {
		exports[i] = Export.New(Order{Number: i + 1})
		exports[i].Queue = "tax"
	}
	if err := q.Enqueue(ctx, nil, exports...); err != nil {
		return err
	}
	orders := make(chan error, 1)
	go func() { orders <- takeOrders(ctx, q) }()
	worker := engine.Worker{
		Backend: q, Handler: handlers(), Concurrency: 12, Grace: 5 * time.Second,
		Queues: []string{Confirm.Queue, Deliver.Queue, Report.Queue},
	}
	err := worker.Run(ctx)
	return errors.Join(err, <-orders)
}

// takeOrders enqueues the jobs of an order, again and again.
func takeOrders(ctx context.Context, q queue.Enqueuer) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for number := 1; ; number++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		o := Order{number, fmt.Sprintf("partner-%d", rand.IntN(partners)), fmt.Sprintf("customer-%d@example.com", number)}
		reminder := Confirm.New(o)
		reminder.Delay = time.Hour
		if err := q.Enqueue(ctx, nil, Confirm.New(o), Deliver.New(o), reminder); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// handlers returns the handlers of the shop. They only wait, and fail as others do.
func handlers() *queue.Mux {
	mux := queue.NewMux()
	Confirm.Handle(mux, func(ctx context.Context, _ *queue.Job, o Order) error {
		if rand.IntN(200) == 0 {
			return queue.Discard(fmt.Errorf("smtp: 550 mailbox of <%s> does not exist", o.Address))
		}
		return wait(ctx, 50*time.Millisecond)
	})
	Deliver.Handle(mux, func(ctx context.Context, _ *queue.Job, o Order) error {
		if err := wait(ctx, time.Duration(100+rand.IntN(400))*time.Millisecond); err != nil {
			return err
		}
		if o.Partner == badPartner && rand.IntN(10) < 8 {
			return queue.RetryAfter(3*time.Second, fmt.Errorf("POST https://%s.example.com/orders: 503 Service Unavailable", o.Partner))
		}
		return nil
	})
	Report.Handle(mux, func(ctx context.Context, _ *queue.Job, _ struct{}) error {
		const steps = 100
		for i := range steps {
			if err := queue.SetProgress(ctx, map[string]int{"done": i, "of": steps}); err != nil {
				return err
			}
			if err := wait(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return queue.SetOutput(ctx, map[string]int{"rows": 1000 + rand.IntN(1000)})
	})
	return mux
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
