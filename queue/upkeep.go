package queue

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// maxReclaim is the most jobs of one call of Reclaim.
	maxReclaim = 1000
	// pruneInterval is the average time between two passes of pruning, and pruneTimeout bounds one
	// call of Prune.
	pruneInterval = time.Minute
	pruneTimeout  = 30 * time.Second
	// prunePause is the pause between two calls of Prune. It leaves the database to other work.
	prunePause = 10 * time.Millisecond
	// longestPause is the longest pause before a failed call is retried.
	longestPause = 3 * time.Second
)

// reclaimLoop reclaims jobs whose leases have expired, about every quarter of a lease, until ctx
// ends. Each worker does so, at times that drift apart, so there is no leader. It does not reclaim
// in the first seconds after an outage: leases have expired although their holders live, and the
// holders are about to extend and settle their jobs.
func (r *run) reclaimLoop(ctx context.Context) {
	reclaimer, ok := As[Reclaimer](r.Backend)
	if !ok {
		return
	}
	db := r.watch("reclaim")
	for sleep(ctx, jitter(r.Lease/4)) {
		if r.outageWithin(2 * longestPause) {
			continue
		}
		jobs, err := reclaimAll(ctx, reclaimer)
		if ctx.Err() == nil {
			db.report(err)
		}
		for _, job := range jobs {
			r.logReclaimed(job)
		}
		r.announceReclaimed(jobs)
		if len(jobs) > 0 {
			signal(r.wake)
		}
	}
}

// reclaimAll reclaims all jobs whose leases have expired. It returns jobs even if it fails in
// between.
func reclaimAll(ctx context.Context, reclaimer Reclaimer) (all []*Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	for {
		jobs, err := reclaimer.Reclaim(ctx, maxReclaim)
		all = append(all, jobs...)
		if err != nil || len(jobs) < maxReclaim {
			return all, err
		}
	}
}

// noteOutage notes that a call has just failed because of the database.
func (r *run) noteOutage() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outage = time.Now()
}

// outageWithin reports whether noteOutage was called within the last d.
func (r *run) outageWithin(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.outage.IsZero() && time.Since(r.outage) < d
}

// pruneLoop prunes about every pruneInterval, in small batches, until ctx ends.
func (r *run) pruneLoop(ctx context.Context) {
	pruner, ok := As[Pruner](r.Backend)
	if !ok {
		return
	}
	db := r.watch("prune")
	for sleep(ctx, jitter(pruneInterval)) {
		for more := true; more; more = more && sleep(ctx, prunePause) {
			var err error
			more, err = pruneOnce(ctx, pruner)
			if ctx.Err() == nil {
				db.report(err)
			}
		}
	}
}

// pruneOnce calls Prune once. more is true if the pass goes on.
func pruneOnce(ctx context.Context, pruner Pruner) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	_, more, err = pruner.Prune(ctx)
	return more && err == nil, err
}

// jitter returns a random duration between half of d and one and a half times d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// watch logs when an operation of the worker begins to fail, when it fails with a new error, and
// when it works again. It decides how long to pause before a retry. Only one goroutine may use it.
type watch struct {
	log       *slog.Logger
	operation string
	failures  int
	since     time.Time
	logged    []string // the shapes of the errors that were logged since then
}

// maxShapes is how many different errors of one outage are logged at most.
const maxShapes = 10

func (r *run) watch(operation string) *watch {
	return &watch{log: r.Logger, operation: operation}
}

// report notes the error that a call returned, or nil, and returns how long to pause. The pause
// after a failure is 50 ms, doubled for each failure before, and at most 3 s. Up to half of it is
// subtracted at random.
func (w *watch) report(err error) (pause time.Duration) {
	const shortest = 50 * time.Millisecond
	switch {
	case err != nil:
		if w.failures == 0 {
			w.since = time.Now()
		}
		if w.isNew(err) {
			w.log.Error("errand: "+w.operation+" failed, will retry", "error", err)
		}
		pause = min(shortest<<min(w.failures, 10), longestPause)
		w.failures++
		return pause - rand.N(pause/2)
	case w.failures > 0:
		w.log.Info("errand: "+w.operation+" works again", "failures", w.failures, "failed_for", time.Since(w.since))
		w.failures = 0
		w.logged = nil
	}
	return 0
}

// isNew reports whether no similar error has been logged since the operation last worked. Errors
// that differ in digits only are similar: ports, addresses and durations change with each call.
func (w *watch) isNew(err error) bool {
	shape := shapeOf(ErrorText(err))
	if len(w.logged) == maxShapes || slices.Contains(w.logged, shape) {
		return false
	}
	w.logged = append(w.logged, shape)
	return true
}
