package router

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/queue"
)

// Enqueue implements [queue.Enqueuer]. db is a transaction or a handle of the home: a job for a
// queue that lives elsewhere is then written to the outbox, and its ID is that of its place there.
// Such a job is never a Duplicate and never Replaced, because its Key is looked up when it arrives.
//
// Without db the jobs go to their backends. If these are several, and one fails after an earlier
// one has written its jobs, the error is [queue.ErrUnknown].
func (q *Queue) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	for i, job := range jobs {
		if err := job.Check(q.options.MaxPayload); err != nil {
			return fmt.Errorf("router: enqueue: job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if db != nil {
		return q.enqueueIn(ctx, db, jobs)
	}
	for i, p := range q.byQueue(jobs) {
		err := p.Enqueue(ctx, nil, p.items...)
		p.health.note(ctx, err)
		switch {
		case err != nil && i > 0:
			return fmt.Errorf("router: enqueue: %w: jobs of other backends are written: %w", queue.ErrUnknown, err)
		case err != nil:
			return err
		}
		for _, job := range p.items {
			job.ID = p.outward(job.ID)
		}
	}
	return nil
}

// byQueue shares jobs out to the backends of their queues, in the order of the backends' numbers.
func (q *Queue) byQueue(jobs []*queue.Job) (parts []*part[*queue.Job]) {
	byNumber := make(map[*target]*part[*queue.Job], len(q.targets))
	for _, job := range jobs {
		t := q.route(job.Queue)
		p := byNumber[t]
		if p == nil {
			p = &part[*queue.Job]{target: t}
			byNumber[t], parts = p, append(parts, p)
		}
		p.items = append(p.items, job)
	}
	slices.SortFunc(parts, func(a, b *part[*queue.Job]) int { return cmp.Compare(a.number, b.number) })
	return parts
}

// enqueueIn writes jobs through db: those of the home, and, in the place of each of the others, a
// job of the outbox.
func (q *Queue) enqueueIn(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	written := make([]*queue.Job, len(jobs))
	for i, job := range jobs {
		written[i] = job
		if t := q.route(job.Queue); t != q.home {
			out, err := t.outboxJob(job)
			if err != nil {
				return fmt.Errorf("router: enqueue: job %d of %d: %w", i+1, len(jobs), err)
			}
			written[i] = out
		}
	}
	if err := q.home.Enqueue(ctx, db, written...); err != nil {
		return err
	}
	for i, job := range jobs {
		if out := written[i]; out != job {
			job.ID, job.Duplicate, job.Replaced = out.ID, false, false
		}
	}
	return nil
}
