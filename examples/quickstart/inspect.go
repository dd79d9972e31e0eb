package main

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// What the day and the audit want to know of the database.

// jobCounts counts the jobs by status.
func (s *shop) jobCounts(ctx context.Context) (map[queue.Status]int, error) {
	counts, err := s.jobs.Counts(ctx)
	if err != nil {
		return nil, err
	}
	byStatus := make(map[queue.Status]int)
	for _, c := range counts {
		byStatus[c.Status] += int(c.Jobs)
	}
	return byStatus, nil
}

// openJobs counts the jobs that have not ended.
func (s *shop) openJobs(ctx context.Context) (int, error) {
	counts, err := s.jobCounts(ctx)
	return counts[queue.StatusPending] + counts[queue.StatusRunning], err
}

// webhooksOf lists the orders whose webhooks a worker holds.
func (s *shop) webhooksOf(ctx context.Context, worker string) (map[int64]bool, error) {
	jobs, err := s.jobs.Jobs(ctx, queue.Filter{Kind: OrderWebhook.Name, Status: queue.StatusRunning, Limit: 1000})
	if err != nil {
		return nil, err
	}
	orders := make(map[int64]bool)
	for _, job := range jobs {
		if job.Worker != worker {
			continue
		}
		w, err := OrderWebhook.Args(&job.Job)
		if err != nil {
			return nil, err
		}
		orders[w.OrderID] = true
	}
	return orders, nil
}

// awaitGone waits until the database has noticed that a worker is dead: the last
// statements of a process that was killed may be carried out after its end.
func (s *shop) awaitGone(ctx context.Context, worker string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var gone bool
		const query = `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1)`
		if err := s.db.QueryRowContext(ctx, query, worker).Scan(&gone); err != nil || gone {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tally counts how often a query returns each order.
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
