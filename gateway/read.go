package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// reads are the routes that read, each with a capability of the backend.
var reads = []route{
	jobsRoute(),
	read("/v1/jobs/{id}", "Read a job", none{}, func(ctx context.Context, q *request, i driver.Inspector, _ none) (wire.JobAnswer, error) {
		r, err := q.record(ctx, i)
		return wire.JobAnswer{Job: wire.RecordOf(r)}, err
	}),
	read("/v1/jobs/{id}/result", "Read the result of a job", none{}, readResult),
	read("/v1/counts", "Count jobs", none{}, func(ctx context.Context, q *request, i driver.Inspector, _ none) (wire.CountsAnswer, error) {
		counts, err := i.Counts(ctx)
		return wire.CountsAnswer{Counts: visible(q, counts, func(c queue.StatusCount) string { return c.Queue })}, err
	}),
	read("/v1/tally", "Count chosen jobs", wire.Selection{IDs: []int64{1}}, func(ctx context.Context, q *request, i driver.Inspector, in wire.Selection) (wire.CountsAnswer, error) {
		counts, err := i.Tally(ctx, queue.Selection(in))
		return wire.CountsAnswer{Counts: visible(q, counts, func(c queue.StatusCount) string { return c.Queue })}, err
	}),
	read("/v1/backlogs", "Read how far workers are behind", none{}, func(ctx context.Context, q *request, i driver.Inspector, _ none) (wire.BacklogsAnswer, error) {
		backlogs, err := i.Backlogs(ctx)
		return wire.BacklogsAnswer{Backlogs: visible(q, backlogs, func(b driver.Backlog) string { return b.Queue })}, err
	}),
	read("/v1/rules", "Read the rules of queues, and the paused kinds", none{}, readRules),
	read("/v1/workers", "List the workers", none{}, readWorkers),
	read("/v1/runs", "List the jobs that workers hold", wire.RunsRequest{}, readRuns),
}

// jobsRoute returns the route that lists jobs, whose request is in the query.
func jobsRoute() route {
	r := read("/v1/jobs", "List jobs", none{}, readJobs)
	for _, p := range wire.Params {
		r.parameters = append(r.parameters, p.Name)
	}
	return r
}

// readJobs returns a page of jobs.
func readJobs(ctx context.Context, q *request, i driver.Inspector, _ none) (answer wire.JobsAnswer, err error) {
	filter, err := wire.FilterOf(q.URL.RawQuery)
	if err != nil {
		return answer, err
	}
	if err := q.checkOneQueue(filter.Queue); err != nil {
		return answer, err
	}
	page, next, err := pageOf(ctx, i, filter)
	if err != nil {
		return answer, err
	}
	answer = wire.JobsAnswer{Jobs: make([]wire.Record, len(page)), Next: next}
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
func (q *request) record(ctx context.Context, i driver.Inspector) (r queue.Record, err error) {
	id, err := q.id()
	if err != nil {
		return r, err
	}
	r, ok, err := i.Job(ctx, id)
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

// readResult returns what is known of a job that somebody waits for.
func readResult(ctx context.Context, q *request, keeper driver.ResultKeeper, _ none) (answer wire.ResultAnswer, err error) {
	if !q.access.mayUseAll() {
		inspector, err := has[driver.Inspector](q.h.queue, "Inspector")
		if err != nil {
			return answer, err
		}
		if _, err := q.record(ctx, inspector); err != nil {
			return answer, err
		}
	}
	id, err := q.id()
	if err != nil {
		return answer, err
	}
	r, ok, err := keeper.Result(ctx, id)
	if err == nil && !ok {
		err = errNoJob
	}
	return wire.ResultAnswer{Result: r}, err
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
