package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Extend implements [queue.Consumer]. It asks all backends of the jobs at once. If one of several
// fails, the error is a [*driver.PartialError].
func (q *Queue) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := driver.CheckLease(lease); err != nil {
		return nil, nil, err
	}
	if slices.Contains(jobs, nil) {
		return nil, nil, invalid("Job", "nil")
	}
	parts, lost := byID(q, jobs, func(j *queue.Job) *queue.Job { return j })
	var failed failures
	var mu sync.Mutex
	atOnce(parts, func(p *part[*queue.Job]) {
		l, a, err := p.Extend(ctx, lease, p.own...)
		p.health.note(ctx, err)
		if jobs := p.failedJobs(err); len(jobs) > 0 {
			failed.add(err, jobs)
		}
		mu.Lock()
		defer mu.Unlock()
		lost, asked = append(lost, p.callers(l)...), append(asked, p.callers(a)...)
	})
	return lost, asked, failed.err("extend", len(q.targets) == 1)
}

// Settle implements [queue.Consumer]. A db records outcomes of jobs of the home only. Without one
// it asks all backends of the jobs at once. If one of several fails, the error is a
// [*driver.PartialError].
func (q *Queue) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	for _, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	parts, lost := byID(q, outcomes, func(o queue.Outcome) *queue.Job { return o.Job })
	if err := checkHome(db, parts); err != nil {
		return nil, err
	}
	var failed failures
	var mu sync.Mutex
	atOnce(parts, func(p *part[queue.Outcome]) {
		l, err := settle(ctx, db, p, len(parts)-1)
		if jobs := p.failedJobs(err); len(jobs) > 0 {
			failed.add(err, jobs)
		}
		mu.Lock()
		defer mu.Unlock()
		lost = append(lost, p.callers(l)...)
	})
	return lost, failed.err("settle", len(q.targets) == 1 || db != nil)
}

// checkHome returns an error for jobs that a transaction cannot change.
func checkHome[T any](db queue.DB, parts []*part[T]) error {
	for _, p := range parts {
		if db != nil && p.number != 0 {
			return invalid("DB", "job %d is in another backend than this transaction: pass nil", p.jobs[0].ID)
		}
	}
	return nil
}

// settle settles the jobs of one backend while that many others wait.
func settle(ctx context.Context, db queue.DB, p *part[queue.Outcome], others int) (lost []*queue.Job, err error) {
	outcomes := slices.Clone(p.items)
	for i := range outcomes {
		outcomes[i].Job = p.own[i]
	}
	asking := ctx
	if others > 0 && p.health.isSuspect() {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, probeTimeout)
		defer cancel()
	}
	lost, err = p.Settle(asking, db, outcomes...)
	p.health.note(ctx, err)
	return lost, err
}

// failedJobs returns the caller's jobs for which an operation has failed with err.
func (p *part[T]) failedJobs(err error) []*queue.Job {
	if err == nil {
		return nil
	}
	if l, ok := errors.AsType[*driver.LockedError](err); ok {
		return p.callers(l.Jobs)
	}
	if partial, ok := errors.AsType[*driver.PartialError](err); ok {
		return p.callers(partial.Jobs)
	}
	return p.jobs
}

// KeepProgress implements [driver.ResultKeeper].
func (q *Queue) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	for _, p := range progress {
		if err := p.Check(); err != nil {
			return err
		}
	}
	parts, _ := byID(q, progress, func(p queue.Progress) *queue.Job { return p.Job })
	var failed failures
	atOnce(parts, func(p *part[queue.Progress]) {
		keeper, ok := driver.As[driver.ResultKeeper](p.Queue)
		if !ok {
			return
		}
		own := slices.Clone(p.items)
		for i := range own {
			own[i].Job = p.own[i]
		}
		if err := keeper.KeepProgress(ctx, own...); err != nil {
			failed.add(err, p.jobs)
		}
	})
	if err := failed.err("progress", true); err != nil {
		return fmt.Errorf("router: progress: %w", err)
	}
	return nil
}
