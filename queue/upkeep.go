package queue

import (
	"context"
	"math/rand/v2"
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
)

// reclaimLoop reclaims jobs whose leases have expired, about every quarter of a lease, until ctx
// ends. Each worker does so, at times that drift apart, so there is no leader. It does not reclaim
// in the first seconds after an outage: leases have expired although their holders live, and the
// holders are about to extend and settle their jobs. A call goes on when ctx has ended, until calls
// ends: only its answer tells for which jobs to call OnDead.
func (r *run) reclaimLoop(ctx, calls context.Context) {
	reclaimer, ok := As[Reclaimer](r.Backend)
	if !ok {
		return
	}
	log := r.watchCalls("reclaim")
	for sleep(ctx, jitter(r.Lease/4)) {
		if r.outageWithin(2 * longestPause) {
			continue
		}
		jobs, err := reclaimAll(ctx, calls, reclaimer)
		if ctx.Err() == nil {
			log.report(err)
		}
		for _, job := range jobs {
			r.logReclaimed(job)
			r.observe(reclaimedEvent(job))
		}
		r.countReclaimed(jobs)
		r.announceReclaimed(jobs)
		if len(jobs) > 0 {
			signal(r.wake)
		}
	}
}

// deathsLoop asks a backend that reclaims jobs by itself which of them are dead, until ctx ends. A
// call goes on until calls ends, as in reclaimLoop.
func (r *run) deathsLoop(ctx, calls context.Context) {
	teller, ok := As[DeathTeller](r.Backend)
	if !ok || r.OnDead == nil {
		return
	}
	log := r.watchCalls("read deaths")
	for sleep(ctx, jitter(r.Lease/4)) {
		asking, cancel := context.WithTimeout(calls, claimTimeout)
		jobs, err := teller.Deaths(asking, r.Queues)
		cancel()
		if ctx.Err() == nil {
			log.report(err)
		}
		r.announceReclaimed(jobs)
	}
}

// reclaimAll reclaims jobs whose leases have expired, until there are none or ctx has ended. It
// returns jobs even if it fails in between.
func reclaimAll(ctx, calls context.Context, reclaimer Reclaimer) (all []*Job, err error) {
	calls, cancel := context.WithTimeout(calls, claimTimeout)
	defer cancel()
	for {
		jobs, err := reclaimer.Reclaim(calls, maxReclaim)
		all = append(all, jobs...)
		if err != nil || len(jobs) < maxReclaim || ctx.Err() != nil {
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
	log := r.watchCalls("prune")
	for sleep(ctx, jitter(pruneInterval)) {
		for more := true; more; more = more && sleep(ctx, prunePause) {
			var err error
			more, err = pruneOnce(ctx, pruner)
			if ctx.Err() == nil {
				log.report(err)
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

// upkeepLoop lets the backend do its own work until ctx ends, if it has any.
func (r *run) upkeepLoop(ctx context.Context) {
	upkeeper, ok := As[Upkeeper](r.Backend)
	if !ok {
		return
	}
	if err := upkeeper.Upkeep(ctx, r.Logger); err != nil && ctx.Err() == nil {
		r.Logger.Error("errand: upkeep of the backend has ended, will not be retried by this worker", "error", err)
	}
}

// jitter returns a random duration between half of d and one and a half times d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
