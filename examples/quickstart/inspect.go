package main

import (
	"context"
	"time"

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
	const query = `SELECT (payload ->> 'order_id')::bigint FROM errand.jobs WHERE status = 'running' AND kind = $1 AND locked_by = $2`
	return s.tally(ctx, query, OrderWebhook.Name, worker)
}

// tally counts orders in what a query returns.
func (s *shop) tally(ctx context.Context, query string, args ...any) (tally, error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
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

// awaitGone waits until a dead worker's connections are gone: the database may
// still be carrying out the last statements that it sent.
func (s *shop) awaitGone(ctx context.Context, worker string) error {
	const query = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var connections int
		if err := s.db.QueryRowContext(ctx, query, worker).Scan(&connections); err != nil || connections == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
