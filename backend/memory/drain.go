package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// drainLease is longer than any test's clock runs while a handler does.
const drainLease = 30 * 24 * time.Hour

// Drain runs all due jobs, one at a time in the caller's goroutine, until none is due; that
// includes jobs that become due meanwhile, such as those that a handler enqueues. It takes the jobs
// of all queues in the order of claims. It leaves what is paused, and keeps no limits and no rates.
// As with a worker, only a [queue.Mux] can leave paused kinds. It settles each job as a worker
// would ([queue.OutcomeOf]; a panic becomes a [queue.PanicError]), so a failed job waits for its
// back-off and is left. If h is a [queue.Mux], or a chain around one, jobs of kinds that it does
// not handle are left too.
//
// Drain returns how many runs there were, and an error only if ctx ends. A job that snoozes for no
// time is due a microsecond later, so it may be run again or left.
func (q *Queue) Drain(ctx context.Context, h queue.Handler) (ran int, err error) {
	var kinds []string
	if mux, ok := queue.MuxOf(h); ok {
		if kinds = mux.Kinds(); len(kinds) == 0 {
			return 0, nil
		}
	}
	for {
		job, err := q.next(ctx, kinds)
		if job == nil || err != nil {
			return ran, err
		}
		ran++
		jobCtx := queue.WithResults(ctx)
		outcome, ok := queue.OutcomeOf(jobCtx, job, run(jobCtx, h, job))
		if !ok {
			continue
		}
		if _, err := q.Settle(context.WithoutCancel(ctx), nil, outcome); err != nil {
			return ran, err
		}
	}
}

// next claims the first due job of all queues; nil if none is due.
func (q *Queue) next(ctx context.Context, kinds []string) (*queue.Job, error) {
	if _, err := q.Reclaim(ctx, slice); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	if len(kinds) > 0 {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return q.paused[kind] })
		if len(kinds) == 0 {
			return nil, nil
		}
	}
	var pending []*laneRows
	for name, lanes := range q.pending {
		for l, rows := range lanes {
			if (len(kinds) == 0 || slices.Contains(kinds, l.kind)) && !q.isPaused(name, l.group) {
				rows.advance(at)
				pending = append(pending, rows)
			}
		}
	}
	r := firstToClaim(pending)
	for _, name := range slices.Sorted(maps.Keys(q.ordered)) {
		if r == nil {
			r = q.nextHead(name, kinds, at, func(job *queue.Job) bool { return !q.isPaused(name, job.Group) })
		}
	}
	if r == nil {
		return nil, nil
	}
	q.lastFence++
	return q.claim(nil, r, queue.ClaimRequest{Worker: "Drain", Lease: drainLease}, at), nil
}

// isPaused reports whether the queue or that group of it is paused. The caller holds q.mu.
func (q *Queue) isPaused(name, group string) bool {
	return q.rules[ruleKey{name, ""}].Paused || q.rules[ruleKey{name, group}].Paused
}

// run calls the handler. It returns a panic of the handler as an error.
func run(ctx context.Context, h queue.Handler, job *queue.Job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = queue.RecoveredPanic(v)
		}
	}()
	return h.HandleJob(ctx, job)
}
