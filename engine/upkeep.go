package engine

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
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

// upkeep does what is not about the jobs that this worker holds: it reclaims and prunes jobs, fires
// schedules, reads the paused kinds, and calls OnDead for reclaimed jobs.
type upkeep struct {
	*shared
	held      *holding
	wakeups   *wakeups
	reporting *reporting
	deaths    chan *queue.Job // reclaimed jobs that are dead, on their way to OnDead

	mu         sync.Mutex
	announcing int           // calls of OnDead for reclaimed jobs, to come and running, and calls that tell of such jobs
	idle       chan struct{} // set by whenIdle, closed once announcing is 0
	undone     error         // what the backend's own work has left undone when it ended
}

func newUpkeep(s *shared, held *holding, w *wakeups, r *reporting) *upkeep {
	return &upkeep{shared: s, held: held, wakeups: w, reporting: r, deaths: make(chan *queue.Job, maxDeaths)}
}

// reclaimLoop reclaims jobs whose leases have expired, about every quarter of a lease, until ctx
// ends. Each worker does so, at times that drift apart, so there is no leader. It does not reclaim
// in the first seconds after an outage: leases have expired although their holders live, and the
// holders are about to extend and settle their jobs. A call goes on when ctx has ended, until calls
// ends: only its answer tells for which jobs to call OnDead. Meanwhile the worker is not idle.
func (u *upkeep) reclaimLoop(ctx, calls context.Context) {
	reclaimer, ok := driver.As[driver.Reclaimer](u.Backend)
	if !ok {
		return
	}
	log := u.watchCalls("reclaim")
	for sleep(ctx, jitter(u.Lease/4)) {
		if u.outage.isWithin(2*longestPause) || !u.beginTelling() {
			continue
		}
		u.reportTelling(ctx, log, u.reclaimAll(ctx, calls, reclaimer))
		u.noteAnnouncing(-1)
	}
}

// reclaimAll reclaims jobs whose leases have expired, until there are none or ctx has ended.
func (u *upkeep) reclaimAll(ctx, calls context.Context, reclaimer driver.Reclaimer) (err error) {
	calls, cancel := context.WithTimeout(calls, claimTimeout)
	defer cancel()
	for {
		jobs, failed := reclaimer.Reclaim(calls, maxReclaim)
		err = cmp.Or(failed, err)
		for _, job := range jobs {
			u.failures.writeReclaimed(job)
			u.observe(reclaimedEvent(job))
		}
		u.reporting.countReclaimed(jobs)
		u.announceReclaimed(jobs) // before the next call, which may not be answered
		if len(jobs) > 0 {
			signal(u.wakeups.wake)
		}
		if failed != nil && !isPartial(failed) || len(jobs) < maxReclaim || ctx.Err() != nil {
			return err
		}
	}
}

// deathsLoop asks a backend that reclaims jobs by itself which of them are dead, until ctx ends. A
// call goes on until calls ends, as in reclaimLoop.
func (u *upkeep) deathsLoop(ctx, calls context.Context) {
	teller, ok := driver.As[driver.DeathTeller](u.Backend)
	if !ok || u.OnDead == nil {
		return
	}
	log := u.watchCalls("read deaths")
	for sleep(ctx, jitter(u.Lease/4)) {
		if !u.beginTelling() {
			continue
		}
		asking, cancel := context.WithTimeout(calls, claimTimeout)
		jobs, err := teller.Deaths(asking, u.Queues)
		cancel()
		u.announceReclaimed(jobs)
		u.reportTelling(ctx, log, err)
		u.noteAnnouncing(-1)
	}
}

// beginTelling begins a call that may tell of dead jobs, unless the worker stops. It counts as one
// of OnDead, for which a worker that stops waits.
func (u *upkeep) beginTelling() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.serving.Err() != nil {
		return false
	}
	u.announcing++
	return true
}

// reportTelling reports what a call came to that may tell of dead jobs. No other follows it once
// ctx has ended.
func (u *upkeep) reportTelling(ctx context.Context, log *callLog, err error) {
	switch {
	case ctx.Err() == nil && isPartial(err): // the backend that stands for several logs it
	case ctx.Err() == nil:
		log.report(err)
	case err != nil && u.OnDead != nil:
		u.Logger.Error("errand: the last call that tells of dead jobs failed while the worker stopped, OnDead may not be called for some", "error", err)
	}
}

// pruneLoop prunes about every pruneInterval, in small batches, until ctx ends.
func (u *upkeep) pruneLoop(ctx context.Context) {
	reclaimer, ok := driver.As[driver.Reclaimer](u.Backend)
	if !ok {
		return
	}
	log := u.watchCalls("prune")
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
func (u *upkeep) upkeepLoop(ctx context.Context) {
	upkeeper, ok := driver.As[driver.Upkeeper](u.Backend)
	if !ok {
		return
	}
	err := upkeeper.Upkeep(ctx, driver.UpkeepOptions{Logger: u.unnamed, Grace: u.Grace, Halt: u.Halt, OnDead: u.OnDead, Observe: u.Observe})
	switch {
	case err == nil:
	case ctx.Err() == nil:
		u.Logger.Error("errand: upkeep of the backend has ended, will not be retried by this worker", "error", err)
	default:
		u.mu.Lock()
		defer u.mu.Unlock()
		u.undone = err
	}
}

// leftUndone returns what the backend's own work has left undone.
func (u *upkeep) leftUndone() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.undone
}

// jitter returns a random duration between half of d and one and a half times d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
