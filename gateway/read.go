package gateway

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// jobs returns a page of jobs.
func (q *request) jobs() (any, error) {
	inspector, err := has[driver.Inspector](q.h.queue, "Inspector")
	if err != nil {
		return nil, err
	}
	filter, err := wire.FilterOf(q.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if filter.Queue == "" && !q.access.mayUseAll() {
		return nil, invalid("queue", "empty: %s may not use all queues, so name one", q.access.Name)
	}
	if filter.Queue != "" {
		if err := q.checkQueue("queue", filter.Queue); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	page, next, err := pageOf(ctx, inspector, filter)
	if err != nil {
		return nil, err
	}
	answer := wire.JobsAnswer{Jobs: make([]wire.Record, len(page)), Next: next}
	for i, r := range page {
		answer.Jobs[i] = wire.RecordOf(r)
	}
	return answer, nil
}

const (
	// pageBytes is about how long the payloads of a page may be in total.
	pageBytes = 32 << 20
	// sliceOfPage is how many jobs are read at once, so that no more of them are in memory than that
	// beyond pageBytes.
	sliceOfPage = 32
)

// pageOf lists jobs as Jobs does, but ends the page after pageBytes.
func pageOf(ctx context.Context, i driver.Inspector, f queue.Filter) (page []queue.Record, next int64, err error) {
	if f, err = f.Checked(); err != nil {
		return nil, 0, err
	}
	most := f.Limit
	for bytes := 0; len(page) < most && bytes < pageBytes; {
		f.Limit = min(most-len(page), sliceOfPage)
		records, after, err := i.Jobs(ctx, f)
		if err != nil {
			return nil, 0, err
		}
		page, next = append(page, records...), after
		if after == 0 || len(records) < f.Limit {
			break // the last job, or as far as the backend looks in one call
		}
		for _, r := range records {
			bytes += len(r.Payload)
		}
		f.Before = after
	}
	return page, next, nil
}

// errNoJob is the answer for a job that there is not, or that the client may not see.
var errNoJob = failed(wire.CodeNotFound, "no such job")

// record returns the job that the path names.
func (q *request) record(ctx context.Context) (r queue.Record, err error) {
	inspector, err := has[driver.Inspector](q.h.queue, "Inspector")
	if err != nil {
		return r, err
	}
	id, err := q.id()
	if err != nil {
		return r, err
	}
	r, ok, err := inspector.Job(ctx, id)
	if err == nil && (!ok || !q.access.mayUse(r.Queue)) {
		err = errNoJob
	}
	return r, err
}

// id returns the ID in the path.
func (q *request) id() (int64, error) {
	id, err := strconv.ParseInt(q.PathValue("id"), 10, 64)
	if err != nil {
		return 0, invalid("id", "%.40q: no number of a job", q.PathValue("id"))
	}
	return id, nil
}

// job returns one job.
func (q *request) job() (any, error) {
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	r, err := q.record(ctx)
	return wire.JobAnswer{Job: wire.RecordOf(r)}, err
}

// result returns what is known of a job that somebody waits for.
func (q *request) result() (any, error) {
	keeper, err := has[driver.ResultKeeper](q.h.queue, "ResultKeeper")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	if !q.access.mayUseAll() {
		if _, err := q.record(ctx); err != nil {
			return nil, err
		}
	}
	id, err := q.id()
	if err != nil {
		return nil, err
	}
	r, ok, err := keeper.Result(ctx, id)
	if err == nil && !ok {
		err = errNoJob
	}
	return wire.ResultAnswer{Result: r}, err
}

// counts returns the number of jobs of each queue that the client may use.
func (q *request) counts() (any, error) {
	inspector, err := has[driver.Inspector](q.h.queue, "Inspector")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	counts, err := inspector.Counts(ctx)
	counts = slices.DeleteFunc(counts, func(c queue.StatusCount) bool { return !q.access.mayUse(c.Queue) })
	return wire.CountsAnswer{Counts: append([]queue.StatusCount{}, counts...)}, err
}

// backlogs returns the queues with due jobs that wait, of those that the client may use.
func (q *request) backlogs() (any, error) {
	inspector, err := has[driver.Inspector](q.h.queue, "Inspector")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	backlogs, err := inspector.Backlogs(ctx)
	backlogs = slices.DeleteFunc(backlogs, func(b driver.Backlog) bool { return !q.access.mayUse(b.Queue) })
	return wire.BacklogsAnswer{Backlogs: append([]driver.Backlog{}, backlogs...)}, err
}

// check says whether the gateway can serve: it asks the database, if the backend can do that.
func (q *request) check() (any, error) {
	if q.h.isDraining() {
		return nil, errDraining
	}
	checker, ok := driver.As[driver.Checker](q.h.queue)
	if !ok {
		return wire.CheckAnswer{}, nil
	}
	ctx, cancel := context.WithTimeout(q.Context(), checkTimeout)
	defer cancel()
	return wire.CheckAnswer{}, checker.Check(ctx)
}

// checkTimeout is how long a check may take.
const checkTimeout = 5 * time.Second
