package main

import (
	"context"
	"encoding/json"

	"github.com/errandhq/errand/queue"
)

// What main.go and audit.go want to know of the database.

// jobCounts counts the jobs by status.
func (s *shop) jobCounts(ctx context.Context) (map[queue.Status]int, error) {
	counts, err := s.jobs.Counts(ctx)
	byStatus := make(map[queue.Status]int)
	for _, c := range counts {
		byStatus[c.Status] += int(c.Jobs)
	}
	return byStatus, err
}

// openJobs counts the jobs that have not ended.
func (s *shop) openJobs(ctx context.Context) (int, error) {
	jobs, err := s.jobCounts(ctx)
	return jobs[queue.StatusPending] + jobs[queue.StatusRunning], err
}

// heldBy tells of which orders a worker holds the webhook.
func (s *shop) heldBy(ctx context.Context, worker string) (tally, error) {
	webhooks := queue.Filter{Kind: OrderWebhook.Name, Status: queue.StatusRunning}
	return s.ordersOf(ctx, webhooks, func(r queue.Record) bool { return r.Worker == worker })
}

// enqueued tells of which orders there are jobs, whatever has become of them.
func (s *shop) enqueued(ctx context.Context) (tally, error) {
	return s.ordersOf(ctx, queue.Filter{}, func(queue.Record) bool { return true })
}

// ordersOf counts the orders of the jobs that match, page by page.
func (s *shop) ordersOf(ctx context.Context, f queue.Filter, match func(queue.Record) bool) (tally, error) {
	t := make(tally)
	for {
		page, next, err := s.jobs.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			var payload struct {
				OrderID int64 `json:"order_id"`
			}
			if err := json.Unmarshal(r.Payload, &payload); err != nil {
				return nil, err
			}
			if match(r) {
				t[payload.OrderID]++
			}
		}
		if f.Before = next; next == 0 {
			return t, nil
		}
	}
}

// tally counts orders in what a query of the shop's own tables returns.
func (s *shop) tally(ctx context.Context, query string) (tally, error) {
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := make(tally)
	for rows.Next() {
		var order int64
		if err := rows.Scan(&order); err != nil {
			return nil, err
		}
		t[order]++
	}
	return t, rows.Err()
}
