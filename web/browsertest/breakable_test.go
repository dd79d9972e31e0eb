package browsertest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// breakable is a queue whose database can go away.
type breakable struct {
	*memory.Queue
	isGone atomic.Bool
}

var errGone = errors.New("dial tcp 127.0.0.1:5432: connect: connection refused")

func (q *breakable) err() error {
	if q.isGone.Load() {
		return errGone
	}
	return nil
}

func (q *breakable) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	if err := q.err(); err != nil {
		return nil, 0, err
	}
	return q.Queue.Jobs(ctx, f)
}

func (q *breakable) Job(ctx context.Context, id int64) (queue.Record, bool, error) {
	if err := q.err(); err != nil {
		return queue.Record{}, false, err
	}
	return q.Queue.Job(ctx, id)
}

func (q *breakable) AuditLog(ctx context.Context, f queue.AuditFilter) ([]queue.AuditEntry, int64, error) {
	if err := q.err(); err != nil {
		return nil, 0, err
	}
	return q.Queue.AuditLog(ctx, f)
}

// unlessGone calls read if the database is there.
func unlessGone[T any](q *breakable, read func() (T, error)) (value T, err error) {
	if err := q.err(); err != nil {
		return value, err
	}
	return read()
}

func (q *breakable) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	return unlessGone(q, func() ([]queue.StatusCount, error) { return q.Queue.Counts(ctx) })
}

func (q *breakable) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	return unlessGone(q, func() ([]driver.Backlog, error) { return q.Queue.Backlogs(ctx) })
}

func (q *breakable) Rules(ctx context.Context) ([]queue.Rule, error) {
	return unlessGone(q, func() ([]queue.Rule, error) { return q.Queue.Rules(ctx) })
}

func (q *breakable) PausedKinds(ctx context.Context) ([]string, error) {
	return unlessGone(q, func() ([]string, error) { return q.Queue.PausedKinds(ctx) })
}

func (q *breakable) Schedules(ctx context.Context) ([]queue.ScheduleRecord, error) {
	return unlessGone(q, func() ([]queue.ScheduleRecord, error) { return q.Queue.Schedules(ctx) })
}

func (q *breakable) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	return unlessGone(q, func() ([]driver.WorkerRecord, error) { return q.Queue.Workers(ctx) })
}

func (q *breakable) Stats(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error) {
	return unlessGone(q, func() ([]queue.StatsRecord, error) { return q.Queue.Stats(ctx, f) })
}
