package remote

import (
	"context"
	"fmt"
	"net/http"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// get reads from a gateway.
func (q *Queue) get(ctx context.Context, operation, path string, out any) error {
	return q.do(ctx, call{operation: operation, method: http.MethodGet, path: path, out: out})
}

// Result implements [driver.ResultKeeper].
func (q *Queue) Result(ctx context.Context, id int64) (r queue.Result, ok bool, err error) {
	var out wire.ResultAnswer
	err = q.get(ctx, "result", fmt.Sprintf("/v1/jobs/%d/result", id), &out)
	if isNotFound(err) {
		return r, false, nil
	}
	return out.Result, err == nil, err
}

// Check implements [driver.Checker]: it asks a gateway whether its database answers.
func (q *Queue) Check(ctx context.Context) error {
	return q.get(ctx, "check", "/v1/check", new(wire.CheckAnswer))
}

// Counts implements [driver.Inspector].
func (q *Queue) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	var out wire.CountsAnswer
	err := q.get(ctx, "counts", "/v1/counts", &out)
	return out.Counts, err
}

// Tally implements [driver.Inspector].
func (q *Queue) Tally(ctx context.Context, which queue.Selection) (counts []queue.StatusCount, err error) {
	if err := which.Check(driver.Statuses()...); err != nil {
		return nil, err
	}
	for _, part := range partsOf(which) {
		var out wire.CountsAnswer
		c := call{operation: "tally", method: http.MethodPost, path: "/v1/tally", in: wire.Selection(part), out: &out}
		if err := q.do(ctx, c); err != nil {
			return nil, err
		}
		counts = append(counts, out.Counts...)
	}
	return driver.SumCounts(counts), nil
}

// Backlogs implements [driver.Inspector].
func (q *Queue) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	var out wire.BacklogsAnswer
	err := q.get(ctx, "backlogs", "/v1/backlogs", &out)
	return out.Backlogs, err
}

// Jobs implements [driver.Inspector].
func (q *Queue) Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
	if _, err := f.Checked(); err != nil {
		return nil, 0, err
	}
	var out wire.JobsAnswer
	c := call{operation: "jobs", method: http.MethodGet, path: "/v1/jobs", query: wire.QueryOf(f), out: &out}
	if err := q.do(ctx, c); err != nil {
		return nil, 0, err
	}
	page = make([]queue.Record, len(out.Jobs))
	for i, r := range out.Jobs {
		page[i] = recordOf(r)
		if f.NoPayload || f.Bare {
			page[i].Payload = nil
		}
	}
	return page, out.Next, nil
}

// Job implements [driver.Inspector].
func (q *Queue) Job(ctx context.Context, id int64) (r queue.Record, ok bool, err error) {
	var out wire.JobAnswer
	err = q.get(ctx, "job", fmt.Sprintf("/v1/jobs/%d", id), &out)
	if isNotFound(err) {
		return r, false, nil
	}
	return recordOf(out.Job), err == nil, err
}

// recordOf returns the record that the API has sent.
func recordOf(w wire.Record) queue.Record {
	r := w.Record
	r.Payload, r.Unreadable = readable(r.Payload, w.Unreadable)
	return r
}
