package peer

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// Later is a system whose jobs can be due later.
type Later interface {
	// EnqueueLater is Enqueue of jobs that are due when due says.
	EnqueueLater(ctx context.Context, kind Kind, due func(number int) Due, numbers ...int) error
}

// Due says when a job is due: at a time, or after a while. Zero means at once.
type Due struct {
	At    time.Time
	After time.Duration
}

func (e *errand) EnqueueLater(ctx context.Context, kind Kind, due func(number int) Due, numbers ...int) error {
	return e.queue.Enqueue(ctx, nil, laterJobs(kind, due, numbers)...)
}

func (r *onRedis) EnqueueLater(ctx context.Context, kind Kind, due func(number int) Due, numbers ...int) error {
	return r.queue.Enqueue(ctx, nil, laterJobs(kind, due, numbers)...)
}

func laterJobs(kind Kind, due func(number int) Due, numbers []int) []*queue.Job {
	jobs := newJobs(kind, numbers)
	for i, n := range numbers {
		d := due(n)
		jobs[i].ScheduledAt, jobs[i].Delay = d.At, d.After
	}
	return jobs
}
