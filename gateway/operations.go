package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// enqueue writes jobs.
func (q *request) enqueue() (any, error) {
	var in wire.EnqueueRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if err := q.checkLength("jobs", len(in.Jobs)); err != nil {
		return nil, err
	}
	jobs := make([]*queue.Job, len(in.Jobs))
	for i, j := range in.Jobs {
		jobs[i] = j.ToEnqueue()
		if err := jobs[i].Check(q.h.options.MaxPayload); err != nil {
			return nil, q.at(fmt.Sprintf("jobs[%d]", i), err)
		}
		if err := q.checkQueue(fmt.Sprintf("jobs[%d].queue", i), cmp.Or(j.Queue, queue.DefaultQueue)); err != nil {
			return nil, err
		}
	}
	if err := q.h.rates.enqueued.take(q.access.Name, "jobs to enqueue", len(jobs), cmp.Or(q.access.MaxEnqueued, q.h.options.MaxEnqueued), 0); err != nil {
		return nil, err
	}
	return q.enqueueOnce(in, jobs)
}

// at returns err as that of an element of a list.
func (q *request) at(element string, err error) error {
	e := q.h.explain(err)
	e.Field = element + "." + e.Field
	return e
}

// enqueueJobs writes jobs, whether or not the client still waits: it may ask again with the same
// idempotency key.
func (h *Handler) enqueueJobs(jobs []*queue.Job) (wire.EnqueueAnswer, error) {
	ctx, cancel := h.callContext()
	defer cancel()
	if err := h.queue.Enqueue(ctx, nil, jobs...); err != nil {
		return wire.EnqueueAnswer{}, err
	}
	answer := wire.EnqueueAnswer{Jobs: make([]wire.Enqueued, len(jobs))}
	written := make(map[string]bool)
	for i, j := range jobs {
		answer.Jobs[i] = wire.Enqueued{ID: j.ID, Duplicate: j.Duplicate, Replaced: j.Replaced}
		written[cmp.Or(j.Queue, queue.DefaultQueue)] = true
	}
	for name := range written {
		h.noteWrite(name)
	}
	return answer, nil
}

// claimed are the jobs of a claim, which are released if the client does not get them.
type claimed struct {
	wire.ClaimAnswer
	h    *Handler
	jobs []*queue.Job
}

func (c claimed) giveBack() {
	for _, j := range c.jobs {
		c.h.claimants.settled(j)
	}
	c.h.release(c.jobs)
}

// claim claims jobs for a worker. If none is due, it waits for as long as the client asks.
func (q *request) claim() (any, error) {
	in, wait, poll, err := q.claimRequest()
	if err != nil {
		return nil, err
	}
	g, leave, err := q.h.enter(in.Queues, in.Kinds)
	if err != nil {
		return nil, err
	}
	defer leave()
	q.h.claimants.noteClaim(in, nil)
	if poll && g.isQuietPoll() {
		return wire.ClaimAnswer{Jobs: []wire.Claimed{}}, nil
	}
	got := g.claimFor(q.Context(), in, wait)
	if got.err != nil {
		return nil, got.err
	}
	q.h.claimants.noteClaim(in, got.jobs)
	answer := claimed{h: q.h, jobs: got.jobs, ClaimAnswer: wire.ClaimAnswer{Jobs: make([]wire.Claimed, len(got.jobs))}}
	ends := time.Now().Add(in.Lease)
	for i, j := range got.jobs {
		answer.Jobs[i] = wire.ClaimedOf(j, ends)
	}
	return answer, nil
}

// claimRequest reads a claim, and checks it.
func (q *request) claimRequest() (req queue.ClaimRequest, wait time.Duration, poll bool, err error) {
	var in wire.ClaimRequest
	if err := q.read(&in); err != nil {
		return req, 0, false, err
	}
	req = queue.ClaimRequest{
		Queues: in.Queues, Kinds: in.Kinds, Limit: cmp.Or(in.Limit, 1), Ahead: in.Ahead, Bytes: in.Bytes,
		Lease: cmp.Or(in.Lease, wire.DefaultLease), Worker: in.Worker, Shared: true,
	}
	if err := req.Check(); err != nil {
		return req, 0, false, err
	}
	if err := q.checkWaiting(in.Queues, in.Worker, in.Wait); err != nil {
		return req, 0, false, err
	}
	if len(in.Kinds) > maxNames {
		return req, 0, false, invalid("kinds", "%d: at most %d", len(in.Kinds), maxNames)
	}
	if most := q.h.options.MaxJobs; req.Limit > most {
		req.Limit, req.Ahead = most, max(req.Ahead-(req.Limit-most), 0)
	}
	req.Bytes = min(req.MaxBytes(), queue.ClaimRequest{}.MaxBytes())
	return req, min(in.Wait, longestWait), in.Poll, nil
}

// maxNames is how many queues or kinds a claim may name.
const maxNames = 1000

// checkWaiting checks what requests to wait have in common.
func (q *request) checkWaiting(queues []string, worker string, wait time.Duration) error {
	switch {
	case wait < 0:
		return invalid("wait_ns", "%v: at least 0", wait)
	case len(queues) > maxNames:
		return invalid("queues", "%d: at most %d", len(queues), maxNames)
	}
	for i, name := range queues {
		if err := q.checkQueue(fmt.Sprintf("queues[%d]", i), name); err != nil {
			return err
		}
	}
	return q.checkWorker("worker", worker)
}

// enter counts a client that waits for jobs of those queues and kinds, until it calls leave.
func (h *Handler) enter(queues, kinds []string) (g *group, leave func(), err error) {
	if h.isDraining() {
		return nil, nil, errDraining
	}
	if h.waiting.Add(1) > int64(h.options.MaxWaiting) {
		err = failed(wire.CodeTooMany, "%d clients wait already", h.options.MaxWaiting)
	} else {
		g, err = h.groupOf(queues, kinds)
	}
	leave = func() { h.waiting.Add(-1) }
	if err != nil {
		leave()
	}
	return g, leave, err
}

// release gives jobs back that no client has got. Their runs do not count as attempts. If
// this fails, they are reclaimed when their leases have expired.
func (h *Handler) release(jobs []*queue.Job) {
	if len(jobs) == 0 {
		return
	}
	outcomes := make([]queue.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = queue.Outcome{Job: j, Action: queue.Release}
	}
	ctx, cancel := h.callContext()
	defer cancel()
	if _, err := h.queue.Settle(ctx, nil, outcomes...); err != nil {
		h.options.Logger.Warn("errand: gateway: claimed jobs without a client not released; they run again when their leases have expired",
			"jobs", len(jobs), "worker", jobs[0].Worker, "error", err)
	}
}

// sleep announces that a worker is about to wait.
func (q *request) sleep() (any, error) {
	var in wire.SleepRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if err := q.checkNames(in.Queues, nil, in.Worker, 0); err != nil {
		return nil, err
	}
	if q.h.isDraining() {
		return nil, errDraining
	}
	g, err := q.h.groupOf(in.Queues, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	if _, _, err := g.lookout.announce(ctx); err != nil {
		return nil, err
	}
	return wire.SleepAnswer{Next: g.lookout.untilNext()}, nil
}

// checkNames checks a request of a worker by the rules for claims.
func (q *request) checkNames(queues, kinds []string, worker string, wait time.Duration) error {
	r := queue.ClaimRequest{Queues: queues, Kinds: kinds, Worker: worker, Limit: 1, Lease: wire.DefaultLease}
	if err := r.Check(); err != nil {
		return err
	}
	if len(kinds) > maxNames {
		return invalid("kinds", "%d: at most %d", len(kinds), maxNames)
	}
	return q.checkWaiting(queues, worker, wait)
}

// wait waits until the worker should claim.
func (q *request) wait() (any, error) {
	var in wire.WaitRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if err := q.checkNames(in.Queues, in.Kinds, in.Worker, in.Wait); err != nil {
		return nil, err
	}
	g, leave, err := q.h.enter(in.Queues, in.Kinds)
	if err != nil {
		return nil, err
	}
	defer leave()
	if g.lookout.waker.HasGivenUp() {
		return nil, failed(wire.CodeNotSupported, "the gateway's backend cannot wake workers: claim with wait_ns")
	}
	if !g.lookout.waker.CanWake() {
		return nil, errDeaf
	}
	woken := g.listen(q.Context(), min(cmp.Or(in.Wait, longestWait), longestWait))
	if !woken && q.h.isDraining() {
		return nil, errDraining
	}
	return wire.WaitAnswer{Woken: woken}, nil
}

// extend extends leases.
func (q *request) extend() (any, error) {
	var in wire.ExtendRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if err := q.checkLength("jobs", len(in.Jobs)); err != nil {
		return nil, err
	}
	jobs := make([]*queue.Job, len(in.Jobs))
	for i, held := range in.Jobs {
		jobs[i] = held.Job()
		if err := q.checkWorker(fmt.Sprintf("jobs[%d].worker", i), held.Worker); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	lost, asked, err := q.h.queue.Extend(ctx, cmp.Or(in.Lease, wire.DefaultLease), jobs...)
	if err != nil {
		return nil, err
	}
	q.h.claimants.noteExtend(jobs, lost, cmp.Or(in.Lease, wire.DefaultLease))
	return wire.ExtendAnswer{Lost: heldOf(lost), Asked: heldOf(asked)}, nil
}

// heldOf returns what the API sends of claimed jobs.
func heldOf(jobs []*queue.Job) []wire.Held {
	all := make([]wire.Held, len(jobs))
	for i, j := range jobs {
		all[i] = wire.HeldOf(j)
	}
	return all
}

// settle records outcomes.
func (q *request) settle() (any, error) {
	var in wire.SettleRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if err := q.checkLength("outcomes", len(in.Outcomes)); err != nil {
		return nil, err
	}
	outcomes := make([]queue.Outcome, len(in.Outcomes))
	named := make(map[wire.Held]bool)
	for i, o := range in.Outcomes {
		var err error
		held := wire.Held{ID: o.ID, Fence: o.Fence, Worker: o.Worker}
		if named[held] {
			return nil, invalid(fmt.Sprintf("outcomes[%d].id", i), "job %d has an outcome already: send one for each", o.ID)
		}
		named[held] = true
		if outcomes[i], err = outcomeOf(o); err == nil {
			err = outcomes[i].Check()
		}
		if err != nil {
			return nil, q.at(fmt.Sprintf("outcomes[%d]", i), err)
		}
		if err := q.checkWorker(fmt.Sprintf("outcomes[%d].worker", i), o.Worker); err != nil {
			return nil, err
		}
	}
	ctx, cancel := q.h.callContext()
	defer cancel()
	lost, err := q.h.queue.Settle(ctx, nil, outcomes...)
	q.h.settles.Add(1)
	answer := wire.SettleAnswer{Lost: heldOf(lost)}
	if locked, ok := errors.AsType[*driver.LockedError](err); ok {
		answer.Locked = heldOf(locked.Jobs)
		err = nil
	}
	if partial, ok := errors.AsType[*driver.PartialError](err); ok {
		answer.Locked = heldOf(partial.Jobs)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	q.h.noteSettled(outcomes, slices.Concat(answer.Lost, answer.Locked))
	return answer, nil
}

// progress records progress.
func (q *request) progress() (any, error) {
	keeper, err := has[driver.ResultKeeper](q.h.queue, "ResultKeeper")
	if err != nil {
		return nil, err
	}
	var in wire.ProgressRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if err := q.checkLength("progress", len(in.Progress)); err != nil {
		return nil, err
	}
	progress := make([]queue.Progress, len(in.Progress))
	for i, p := range in.Progress {
		progress[i] = queue.Progress{Job: wire.Held{ID: p.ID, Fence: p.Fence, Worker: p.Worker}.Job(), Value: p.Value}
		if err := progress[i].Check(); err != nil {
			return nil, q.at(fmt.Sprintf("progress[%d]", i), err)
		}
		if err := q.checkWorker(fmt.Sprintf("progress[%d].worker", i), p.Worker); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	return wire.ProgressAnswer{}, keeper.KeepProgress(ctx, progress...)
}
