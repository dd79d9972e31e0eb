package engine

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/queue/driver"
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
// ends: only its answer tells for which jobs to call OnDead. Meanwhile the worker is not idle.
func (r *run) reclaimLoop(ctx, calls context.Context) {
	reclaimer, ok := driver.As[driver.Reclaimer](r.Backend)
	if !ok {
		return
	}
	log := r.watchCalls("reclaim")
	for sleep(ctx, jitter(r.Lease/4)) {
		if r.outageWithin(2*longestPause) || !r.beginTelling() {
			continue
		}
		r.reportTelling(ctx, log, r.reclaimAll(ctx, calls, reclaimer))
		r.noteAnnouncing(-1)
	}
}

// reclaimAll reclaims jobs whose leases have expired, until there are none or ctx has ended.
func (r *run) reclaimAll(ctx, calls context.Context, reclaimer driver.Reclaimer) (err error) {
	calls, cancel := context.WithTimeout(calls, claimTimeout)
	defer cancel()
	for {
		jobs, failed := reclaimer.Reclaim(calls, maxReclaim)
		err = cmp.Or(failed, err)
		for _, job := range jobs {
			r.failures.writeReclaimed(job)
			r.observe(reclaimedEvent(job))
		}
		r.countReclaimed(jobs)
		r.announceReclaimed(jobs) // before the next call, which may not be answered
		if len(jobs) > 0 {
			signal(r.wake)
		}
		if failed != nil && !isPartial(failed) || len(jobs) < maxReclaim || ctx.Err() != nil {
			return err
		}
	}
}

// deathsLoop asks a backend that reclaims jobs by itself which of them are dead, until ctx ends. A
// call goes on until calls ends, as in reclaimLoop.
func (r *run) deathsLoop(ctx, calls context.Context) {
	teller, ok := driver.As[driver.DeathTeller](r.Backend)
	if !ok || r.OnDead == nil {
		return
	}
	log := r.watchCalls("read deaths")
	for sleep(ctx, jitter(r.Lease/4)) {
		if !r.beginTelling() {
			continue
		}
		asking, cancel := context.WithTimeout(calls, claimTimeout)
		jobs, err := teller.Deaths(asking, r.Queues)
		cancel()
		r.announceReclaimed(jobs)
		r.reportTelling(ctx, log, err)
		r.noteAnnouncing(-1)
	}
}

// beginTelling begins a call that may tell of dead jobs, unless the worker stops. It counts as one
// of OnDead, for which a worker that stops waits.
func (r *run) beginTelling() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serving.Err() != nil {
		return false
	}
	r.announcing++
	return true
}

// reportTelling reports what a call came to that may tell of dead jobs. No other follows it once
// ctx has ended.
func (r *run) reportTelling(ctx context.Context, log *callLog, err error) {
	switch {
	case ctx.Err() == nil && isPartial(err): // the backend that stands for several logs it
	case ctx.Err() == nil:
		log.report(err)
	case err != nil && r.OnDead != nil:
		r.Logger.Error("errand: the last call that tells of dead jobs failed while the worker stopped, OnDead may not be called for some", "error", err)
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
	reclaimer, ok := driver.As[driver.Reclaimer](r.Backend)
	if !ok {
		return
	}
	log := r.watchCalls("prune")
	for sleep(ctx, jitter(pruneInterval)) {
		for more := true; more; more = more && sleep(ctx, prunePause) {
			var err error
			more, err = pruneOnce(ctx, reclaimer)
			if ctx.Err() == nil {
				log.report(err)
			}
		}
	}
}

// pruneOnce calls Prune once. more is true if the pass goes on.
func pruneOnce(ctx context.Context, reclaimer driver.Reclaimer) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	_, more, err = reclaimer.Prune(ctx)
	return more && err == nil, err
}

// upkeepLoop lets the backend do its own work until ctx ends, if it has any. An error that comes
// later is what Run returns.
func (r *run) upkeepLoop(ctx context.Context) {
	upkeeper, ok := driver.As[driver.Upkeeper](r.Backend)
	if !ok {
		return
	}
	err := upkeeper.Upkeep(ctx, driver.UpkeepOptions{Logger: r.unnamed, Grace: r.Grace, Halt: r.Halt, OnDead: r.OnDead, Observe: r.Observe})
	switch {
	case err == nil:
	case ctx.Err() == nil:
		r.Logger.Error("errand: upkeep of the backend has ended, will not be retried by this worker", "error", err)
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.undone = err
	}
}

// jitter returns a random duration between half of d and one and a half times d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
