// Package upkeep does what a worker and a gateway do beside the jobs that they hand out: it
// reclaims and prunes jobs, fires schedules, reads the paused kinds, announces sleep and listens
// for jobs. All of it may be done by any number of workers and gateways at once.
package upkeep

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// callTimeout bounds the calls of one pass, except those of Prune.
	callTimeout = 10 * time.Second
	// maxReclaim is the most jobs of one call of Reclaim.
	maxReclaim = 1000
	// pruneInterval is the average time between two passes of pruning, and pruneTimeout bounds one
	// call of Prune.
	pruneInterval = time.Minute
	pruneTimeout  = 30 * time.Second
	// prunePause is the pause between two calls of Prune. It leaves the database to other work.
	prunePause = 10 * time.Millisecond
	// tickPoll is how often FireLoop asks for schedules that it has not heard of.
	tickPoll = 5 * time.Second
	// pausePoll is how often PauseLoop reads the paused kinds if the backend does not tell it, or
	// after a failure. pauseInterval is how often it reads them otherwise.
	pausePoll     = 5 * time.Second
	pauseInterval = 30 * time.Second
)

// Reclaim reclaims jobs whose leases have expired, until there are none or ctx has ended. It hands
// the jobs of each call to take before the next call, which may not be answered. Its calls go on
// until calls ends.
func Reclaim(ctx, calls context.Context, reclaimer driver.Reclaimer, take func([]*queue.Job)) (err error) {
	calls, cancel := context.WithTimeout(calls, callTimeout)
	defer cancel()
	for {
		jobs, failed := reclaimer.Reclaim(calls, maxReclaim)
		err = cmp.Or(failed, err)
		take(jobs)
		if failed != nil && !IsPartial(failed) || len(jobs) < maxReclaim || ctx.Err() != nil {
			return err
		}
	}
}

// PruneLoop prunes about every pruneInterval, in small batches, until ctx ends.
func PruneLoop(ctx context.Context, reclaimer driver.Reclaimer, log *CallLog) {
	for Sleep(ctx, Jitter(pruneInterval)) {
		for more := true; more; more = more && Sleep(ctx, prunePause) {
			var err error
			more, err = pruneOnce(ctx, reclaimer)
			if ctx.Err() == nil {
				log.Report(err)
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

// FireLoop fires schedules until ctx ends. The backend fires each tick once, so there is no leader.
// It fires at the next tick, and asks for changed schedules each tickPoll, and whenever asleep is
// signalled: then the backend has just looked. It calls hasFired after a call that has fired some.
func FireLoop(ctx context.Context, runner driver.Scheduler, log *CallLog, asleep <-chan struct{}, hasFired func()) {
	for {
		fired, wait, err := fireOnce(ctx, runner)
		if ctx.Err() != nil {
			return
		}
		if fired > 0 {
			hasFired()
		}
		if driver.IsForeignTick(err) {
			log.log.Warn("errand: fired a tick of other time zone data", "error", err)
			err = nil
		}
		wakes := asleep
		if wait < 0 || wait > tickPoll {
			wait = tickPoll
		}
		if pause := log.Report(err); err != nil {
			wait, wakes = pause, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wakes:
		}
		timer.Stop()
	}
}

// fireOnce calls FireSchedules once.
func fireOnce(ctx context.Context, runner driver.Scheduler) (fired int, next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return runner.FireSchedules(ctx)
}

// PauseLoop hands the paused kinds to set whenever changed says that they may have changed, until
// ctx ends. It does not read them at once: call ReadPauses before. While the backend does not tell
// of changes to waker, it reads them each pausePoll, or each Poll if that is longer.
func PauseLoop(ctx context.Context, pauser driver.Pauser, waker *Waker, changed <-chan struct{}, log *CallLog, set func(kinds []string)) {
	for {
		wait := pauseInterval
		if !waker.CanWake() {
			wait = max(pausePoll, waker.Poll())
		}
		if !log.Since().IsZero() {
			wait = min(wait, pausePoll)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		err := ReadPauses(ctx, pauser, set)
		if ctx.Err() == nil {
			log.Report(err)
		}
	}
}

// ReadPauses hands the paused kinds to set.
func ReadPauses(ctx context.Context, pauser driver.Pauser, set func(kinds []string)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kinds, err := pauser.PausedKinds(ctx)
	if err == nil {
		set(kinds)
	}
	return err
}

// IsPartial reports whether err concerns only some of the jobs of a call, because of their backend.
func IsPartial(err error) bool {
	_, ok := errors.AsType[*driver.PartialError](err)
	return ok
}

// Sleep waits for d or the end of ctx. It reports whether d has passed.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Jitter returns a random duration between half of d and one and a half times d.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
