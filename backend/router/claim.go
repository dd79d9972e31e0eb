package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Claim implements [queue.Consumer]. It asks the backends one after the other, in the order of the
// queues, each for what the others have left of the limit. A backend that fails is passed over: its
// error is returned only if there are no jobs and no backend has answered. When it has jobs, the
// rest of it takes a tenth of the lease at most, and no more than a second.
func (q *Queue) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("router: claim: %w", err)
	}
	c := claim{router: q, req: req}
	runs := q.runs(req.Queues)
	for i, r := range runs {
		if c.isFull() {
			break
		}
		if len(runs) > 1 && r.health.isLeftOut() {
			continue
		}
		hadJobs := len(c.jobs) > 0
		c.from(ctx, r, len(runs)-1-i)
		if !hadJobs && len(c.jobs) > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limits.RestOfClaim(req.Lease, probeTimeout))
			defer cancel()
		}
	}
	return c.end()
}

// run is some queues of one backend that follow one another in a claim's order.
type run struct {
	*target
	queues []string
}

// runs divides queues into runs.
func (q *Queue) runs(queues []string) (runs []run) {
	for _, name := range queues {
		t := q.route(name)
		if n := len(runs); n > 0 && runs[n-1].target == t {
			runs[n-1].queues = append(runs[n-1].queues, name)
		} else {
			runs = append(runs, run{t, []string{name}})
		}
	}
	return runs
}

// claim is a call of Claim.
type claim struct {
	router      *Queue
	req         queue.ClaimRequest
	jobs        []*queue.Job
	bytes       int // of the jobs
	hasAnswered bool
	errs        []error
}

func (c *claim) isFull() bool {
	return len(c.jobs) >= c.req.Limit || len(c.jobs) > 0 && c.bytes >= c.req.MaxBytes()
}

// from claims from one run, with that many behind it.
func (c *claim) from(ctx context.Context, r run, behind int) {
	req := c.req
	req.Queues = r.queues
	req.Limit = c.req.Limit - len(c.jobs)
	slots := max(c.req.Limit-c.req.Ahead-len(c.jobs), 0) // that are still free
	req.Ahead = req.Limit - slots
	req.Bytes = c.req.MaxBytes() - c.bytes
	asking, cancel := patience(ctx, &r.health, behind)
	defer cancel()
	jobs, err := r.Claim(asking, req)
	r.health.note(ctx, err)
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	c.hasAnswered = true
	for _, job := range jobs {
		if !r.isOwn(job.ID) {
			c.router.options.Logger.Error("errand: the router cannot serve a job, its ID is not between 1 and 10^18",
				"backend", r.number, "job", job.ID, "queue", job.Queue)
			continue
		}
		job.ID = r.outward(job.ID)
		c.jobs, c.bytes = append(c.jobs, job), c.bytes+sizeOf(job)
	}
}

// patience returns the context for a call of one backend while others wait behind it.
func patience(ctx context.Context, h *health, others int) (context.Context, context.CancelFunc) {
	if others == 0 {
		return ctx, func() {}
	}
	if h.isSuspect() {
		return context.WithTimeout(ctx, probeTimeout)
	}
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	return ctx, func() {}
}

// end returns what the claim has come to.
func (c *claim) end() ([]*queue.Job, error) {
	err := errors.Join(c.errs...)
	mustTell := isA[*driver.SlowError](err) || isA[*queue.InvalidError](err) || isA[*queue.SetupError](err)
	switch {
	case len(c.jobs) > 0 || err == nil:
		return c.jobs, nil
	case !c.hasAnswered || mustTell:
		return nil, err
	}
	return nil, nil
}

// sizeOf returns how many bytes the payload and headers of a job have.
func sizeOf(job *queue.Job) int {
	n := len(job.Payload)
	for k, v := range job.Headers {
		n += len(k) + len(v)
	}
	return n
}
