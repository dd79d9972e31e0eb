package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// having returns the backends that have a capability, each as one.
func having[T any](q *Queue) (all []capable[T]) {
	for _, t := range q.targets {
		if c, ok := driver.As[T](t.Queue); ok {
			all = append(all, capable[T]{t, c})
		}
	}
	return all
}

// capable is a backend with a capability.
type capable[T any] struct {
	*target
	can T
}

// Counts implements [driver.Inspector]. A queue that has jobs in several backends has their sum.
func (q *Queue) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	var all []queue.StatusCount
	for _, c := range having[driver.Inspector](q) {
		counts, err := c.can.Counts(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, counts...)
	}
	return driver.SumCounts(all), nil
}

// Tally implements [driver.Inspector].
func (q *Queue) Tally(ctx context.Context, which queue.Selection) (counts []queue.StatusCount, err error) {
	if err := which.Check(driver.Statuses()...); err != nil {
		return nil, err
	}
	_, err = change(q, nil, which, func(i driver.Inspector, own queue.Selection) (int, error) {
		some, err := i.Tally(ctx, own)
		counts = append(counts, some...)
		return 0, err
	})
	return driver.SumCounts(counts), err
}

// sorted returns the values of a map in order.
func sorted[K comparable, V any](m map[K]V, compare func(a, b V) int) []V {
	all := make([]V, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	slices.SortFunc(all, compare)
	return all
}

// Jobs implements [driver.Inspector]. It lists the jobs of one backend after the other, those of
// the highest number first, as their IDs are ordered.
func (q *Queue) Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
	if f, err = f.Checked(); err != nil {
		return nil, 0, err
	}
	page = []queue.Record{}
	for i := len(q.targets) - 1; i >= 0 && len(page) < f.Limit && next == 0; i-- {
		t := q.targets[i]
		own := f
		own.Limit -= len(page)
		isBelow := false
		own.Before, isBelow = t.before(f.Before)
		inspector, ok := driver.As[driver.Inspector](t.Queue)
		if !ok || isBelow {
			continue
		}
		jobs, more, err := inspector.Jobs(ctx, own)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range jobs {
			r.ID = t.outward(r.ID)
			page = append(page, r)
		}
		if more != 0 {
			next = t.outward(more)
		}
	}
	return page, next, nil
}

// before returns the Before of the backend's own list for one of the router's. isBelow is true if
// all IDs of the backend are above it.
func (t *target) before(router int64) (own int64, isBelow bool) {
	first := t.outward(1)
	switch {
	case router == 0 || router > t.outward(idSpan-1):
		return 0, false
	case t.number > 0 && router <= first:
		return 0, true
	}
	return router - t.number*idSpan, false
}

// Job implements [driver.Inspector].
func (q *Queue) Job(ctx context.Context, id int64) (r queue.Record, ok bool, err error) {
	t, own := q.ofID(id)
	if t == nil {
		return r, false, nil
	}
	inspector, err := capability[driver.Inspector](t)
	if err != nil {
		return r, false, err
	}
	r, ok, err = inspector.Job(ctx, own)
	if ok {
		r.ID = id
	}
	return r, ok, err
}

// capability returns the backend as a T, or an [*queue.InvalidError] that says that it is none.
func capability[T any](t *target) (T, error) {
	c, ok := driver.As[T](t.Queue)
	if !ok {
		return c, invalid("Queue", "backend %d of the router (%T) cannot do that", t.number, t.Queue)
	}
	return c, nil
}

// Backlogs implements [driver.Inspector].
func (q *Queue) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	oldest := make(map[string]driver.Backlog)
	for _, c := range having[driver.Inspector](q) {
		backlogs, err := c.can.Backlogs(ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range backlogs {
			b.Age = max(b.Age, oldest[b.Queue].Age)
			oldest[b.Queue] = b
		}
	}
	return sorted(oldest, func(a, b driver.Backlog) int { return cmp.Compare(a.Queue, b.Queue) }), nil
}

// runsOf returns the jobs that workers hold in all backends.
func (q *Queue) runsOf(ctx context.Context, most int, workers []string) (all []driver.RunningJob, err error) {
	for _, c := range having[driver.Fleet](q) {
		runs, err := c.can.Runs(ctx, most, workers...)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			r.ID = c.outward(r.ID)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b driver.RunningJob) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return firstOfEach(all, most), nil
}

// firstOfEach keeps at most most runs of each worker.
func firstOfEach(runs []driver.RunningJob, most int) (kept []driver.RunningJob) {
	n := 0
	for i, r := range runs {
		if i == 0 || runs[i-1].Worker != r.Worker {
			n = 0
		}
		if n++; n <= most {
			kept = append(kept, r)
		}
	}
	return kept
}

// Result implements [driver.ResultKeeper].
func (q *Queue) Result(ctx context.Context, id int64) (r queue.Result, ok bool, err error) {
	t, own := q.ofID(id)
	if t == nil {
		return r, false, nil
	}
	keeper, err := capability[driver.ResultKeeper](t)
	if err != nil {
		return r, false, err
	}
	if r, ok, err = keeper.Result(ctx, own); ok {
		r.ID = id
	}
	return r, ok, err
}

// Check implements [driver.Checker]. It asks all backends at once; the error tells of all that
// fail.
func (q *Queue) Check(ctx context.Context) error {
	var failed failures
	atOnce(having[driver.Checker](q), func(c capable[driver.Checker]) {
		if err := c.can.Check(ctx); err != nil {
			failed.add(fmt.Errorf("router: backend %d: %w", c.number, err), nil)
		}
	})
	return errors.Join(failed.errs...)
}
