package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// refuseHandle returns an error for a db: there is no transaction over HTTP.
func refuseHandle(db queue.DB) error {
	if db == nil {
		return nil
	}
	return &queue.InvalidError{Field: "DB", Problem: fmt.Sprintf("%T: a gateway takes no part in transactions: pass nil", db)}
}

// Claim implements [queue.Consumer]. A claim whose answer is lost is sent to the next gateway. What
// the first one has claimed it releases, if it notices in time; otherwise the lease has to expire.
func (q *Queue) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("remote: claim: %w", err)
	}
	s := q.sleeperOf(req.Worker, req.Queues)
	in := wire.ClaimRequest{
		Queues: req.Queues, Kinds: req.Kinds, Limit: req.Limit, Ahead: req.Ahead, Bytes: req.Bytes, Lease: req.Lease,
		Worker: req.Worker, Poll: s.isPoll(req.Kinds),
	}
	var out wire.ClaimAnswer
	if err := q.do(ctx, call{operation: "claim", method: http.MethodPost, path: "/v1/claim", in: in, out: &out}); err != nil {
		return nil, err
	}
	s.noteClaim(len(out.Jobs))
	jobs := make([]*queue.Job, len(out.Jobs))
	for i := range out.Jobs {
		job := out.Jobs[i].Job // apart from the others, which it would keep in memory
		jobs[i] = &job
		jobs[i].Payload, jobs[i].Unreadable = readable(jobs[i].Payload, out.Jobs[i].Unreadable)
	}
	return jobs, nil
}

// readable returns the payload of a job, and why it cannot be read.
func readable(payload []byte, unreadable string) ([]byte, error) {
	if unreadable == "" {
		return payload, nil
	}
	return nil, errors.New(unreadable)
}

// Extend implements [queue.Consumer].
func (q *Queue) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := driver.CheckLease(lease); err != nil {
		return nil, nil, err
	}
	in := wire.ExtendRequest{Lease: lease, Jobs: make([]wire.Held, len(jobs))}
	for i, j := range jobs {
		if j == nil {
			return nil, nil, &queue.InvalidError{Field: "Job", Problem: "nil"}
		}
		in.Jobs[i] = wire.HeldOf(j)
	}
	if len(jobs) == 0 {
		return nil, nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("remote: extend: %w", err)
	}
	var out wire.ExtendAnswer
	if err := q.do(ctx, call{operation: "extend", method: http.MethodPost, path: "/v1/extend", in: in, out: &out}); err != nil {
		if codeOf(err) == wire.CodeTooLarge && len(jobs) > 1 {
			return q.extendHalves(ctx, lease, jobs)
		}
		return nil, nil, err
	}
	return named(jobs, out.Lost), named(jobs, out.Asked), nil
}

// extendHalves extends leases by two calls: the gateway takes fewer jobs in one. It makes the
// second call also if the first one fails.
func (q *Queue) extendHalves(ctx context.Context, lease time.Duration, jobs []*queue.Job) (lost, asked []*queue.Job, err error) {
	half := len(jobs) / 2
	lost, asked, err = q.Extend(ctx, lease, jobs[:half]...)
	lost2, asked2, err2 := q.Extend(ctx, lease, jobs[half:]...)
	return append(lost, lost2...), append(asked, asked2...), errors.Join(err, err2)
}

// named returns those of jobs that the gateway has named.
func named(jobs []*queue.Job, names []wire.Held) (found []*queue.Job) {
	isNamed := make(map[wire.Held]bool, len(names))
	for _, h := range names {
		isNamed[h] = true
	}
	for _, j := range jobs {
		if isNamed[wire.HeldOf(j)] {
			found = append(found, j)
		}
	}
	return found
}

// Settle implements [queue.Consumer]. If an answer is lost, the outcomes are sent to the next
// gateway. Jobs that the first one has settled are then among the lost ones.
func (q *Queue) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	in := wire.SettleRequest{Outcomes: make([]wire.Outcome, len(outcomes))}
	jobs := make([]*queue.Job, len(outcomes))
	for i, o := range outcomes {
		if err := o.Check(); err != nil {
			return nil, err
		}
		in.Outcomes[i], jobs[i] = outcomeOf(o), o.Job
	}
	if err := refuseHandle(db); err != nil {
		return nil, err
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("remote: settle: %w", err)
	}
	var out wire.SettleAnswer
	if err := q.do(ctx, call{operation: "settle", method: http.MethodPost, path: "/v1/settle", in: in, out: &out}); err != nil {
		return nil, err
	}
	lost = named(jobs, out.Lost)
	if len(out.Locked) > 0 {
		err = &driver.LockedError{Jobs: named(jobs, out.Locked), Err: errors.New("remote: settle: as the gateway says")}
	}
	return lost, err
}

// outcomeOf returns what the API sends of an outcome.
func outcomeOf(o queue.Outcome) wire.Outcome {
	delay := max(o.Delay, 0)
	return wire.Outcome{
		ID: o.Job.ID, Fence: o.Job.Fence, Worker: o.Job.Worker, Action: o.Action.String(), Delay: &delay,
		Error: queue.ErrorText(o.Err), Stack: driver.StackText(o.Err), Output: o.Output, Throttle: o.Throttle,
	}
}

// KeepProgress implements [driver.ResultKeeper].
func (q *Queue) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	in := wire.ProgressRequest{Progress: make([]wire.Progress, len(progress))}
	for i, p := range progress {
		if err := p.Check(); err != nil {
			return err
		}
		in.Progress[i] = wire.Progress{ID: p.Job.ID, Fence: p.Job.Fence, Worker: p.Job.Worker, Value: p.Value}
	}
	if len(progress) == 0 {
		return nil
	}
	return q.do(ctx, call{operation: "progress", method: http.MethodPost, path: "/v1/progress", in: in, out: new(wire.ProgressAnswer)})
}
