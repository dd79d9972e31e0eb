package engine

import (
	"context"
	"sync"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// upkeeping does what is not about the jobs that this worker holds: it reclaims and prunes jobs,
// fires schedules, reads the paused kinds, and calls OnDead for reclaimed jobs.
type upkeeping struct {
	*shared
	held      *holding
	wakeups   *wakeups
	reporting *reporting
	deaths    chan queue.Event // of reclaimed jobs that are dead, on their way to OnDead

	mu         sync.Mutex
	announcing int           // calls of OnDead for reclaimed jobs, to come and running, and calls that tell of such jobs
	idle       chan struct{} // set by whenIdle, closed once announcing is 0
	undone     error         // what the backend's own work has left undone when it ended
}

func newUpkeep(s *shared, held *holding, w *wakeups, r *reporting) *upkeeping {
	return &upkeeping{shared: s, held: held, wakeups: w, reporting: r, deaths: make(chan queue.Event, maxDeaths)}
}

// reclaimLoop reclaims jobs whose leases have expired, about every quarter of a lease, until ctx
// ends. Each worker does so, at times that drift apart, so there is no leader. It does not reclaim
// in the first seconds after an outage: leases have expired although their holders live, and the
// holders are about to extend and settle their jobs. A call goes on when ctx has ended, until calls
// ends: only its answer tells for which jobs to call OnDead. Meanwhile the worker is not idle.
func (u *upkeeping) reclaimLoop(ctx, calls context.Context) {
	reclaimer, ok := driver.As[driver.Reclaimer](u.Backend)
	if !ok {
		return
	}
	log := u.watchCalls("reclaim")
	for upkeep.Sleep(ctx, upkeep.Jitter(u.Lease/4)) {
		if u.outage.isWithin(2*upkeep.LongestPause) || !u.beginTelling() {
			continue
		}
		u.reportTelling(ctx, log, upkeep.Reclaim(ctx, calls, reclaimer, u.takeReclaimed))
		u.noteAnnouncing(-1)
	}
}

// takeReclaimed tells of the jobs of one call of Reclaim.
func (u *upkeeping) takeReclaimed(jobs []*queue.Job) {
	events := reclaimedEvents(jobs)
	for _, e := range events {
		u.failures.writeReclaimed(e)
		u.observe(e)
	}
	u.reporting.countReclaimed(events)
	u.announceReclaimed(events)
	if len(jobs) > 0 {
		signal(u.wakeups.wake)
	}
}

// deathsLoop asks a backend that reclaims jobs by itself which of them are dead, until ctx ends. A
// call goes on until calls ends, as in reclaimLoop.
func (u *upkeeping) deathsLoop(ctx, calls context.Context) {
	teller, ok := driver.As[driver.DeathTeller](u.Backend)
	if !ok || u.OnDead == nil {
		return
	}
	log := u.watchCalls("read deaths")
	for upkeep.Sleep(ctx, upkeep.Jitter(u.Lease/4)) {
		if !u.beginTelling() {
			continue
		}
		asking, cancel := context.WithTimeout(calls, claimTimeout)
		jobs, err := teller.Deaths(asking, u.Queues)
		cancel()
		u.announceReclaimed(reclaimedEvents(jobs))
		u.reportTelling(ctx, log, err)
		u.noteAnnouncing(-1)
	}
}

// beginTelling begins a call that may tell of dead jobs, unless the worker stops. It counts as one
// of OnDead, for which a worker that stops waits.
func (u *upkeeping) beginTelling() bool {
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
func (u *upkeeping) reportTelling(ctx context.Context, log *upkeep.CallLog, err error) {
	switch {
	case ctx.Err() == nil && upkeep.IsPartial(err): // the backend that stands for several logs it
	case ctx.Err() == nil:
		log.Report(err)
	case err != nil && u.OnDead != nil:
		u.Logger.Error("errand: the last call that tells of dead jobs failed while the worker stopped, OnDead may not be called for some", "error", err)
	}
}

// pruneLoop prunes until ctx ends.
func (u *upkeeping) pruneLoop(ctx context.Context) {
	if reclaimer, ok := driver.As[driver.Reclaimer](u.Backend); ok {
		upkeep.PruneLoop(ctx, reclaimer, u.watchCalls("prune"))
	}
}

// tickLoop fires schedules until ctx ends.
func (u *upkeeping) tickLoop(ctx context.Context) {
	runner, ok := driver.As[driver.Scheduler](u.Backend)
	if !ok {
		return
	}
	upkeep.FireLoop(ctx, runner, u.watchCalls("firing schedules"), u.wakeups.tick, func() {
		if !u.wakeups.waker.CanWake() {
			signal(u.wakeups.wake)
		}
	})
}

// setPauses notes which kinds are paused, and releases their jobs that have not been started.
func (u *upkeeping) setPauses(kinds []string) {
	hasResumed := u.paused.Set(kinds)
	u.held.releasePaused()
	if hasResumed {
		signal(u.wakeups.wake)
		signal(u.held.room)
	}
}

// upkeepLoop lets the backend do its own work until ctx ends, if it has any. An error that comes
// later is what Run returns.
func (u *upkeeping) upkeepLoop(ctx context.Context) {
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
func (u *upkeeping) leftUndone() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.undone
}
