package engine

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

// tickPoll is how often a worker asks its backend for schedules that it has not heard of.
const tickPoll = 5 * time.Second

// tickLoop fires schedules until ctx ends. Each worker does so, and the backend fires each tick
// once, so there is no leader. It fires at the next tick, and asks for changed schedules each
// tickPoll, and whenever the worker falls asleep: then the backend has just looked.
func (u *upkeep) tickLoop(ctx context.Context) {
	runner, ok := driver.As[driver.Scheduler](u.Backend)
	if !ok {
		return
	}
	log := u.watchCalls("firing schedules")
	for {
		fired, wait, err := fireOnce(ctx, runner)
		if ctx.Err() != nil {
			return
		}
		if fired > 0 && !u.wakeups.canWake.Load() {
			signal(u.wakeups.wake)
		}
		if driver.IsForeignTick(err) {
			u.Logger.Warn(msgForeignTick, "error", err)
			err = nil
		}
		asleep := u.wakeups.tick
		if wait < 0 || wait > tickPoll {
			wait = tickPoll
		}
		if pause := log.report(err); err != nil {
			wait, asleep = pause, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-asleep:
		}
		timer.Stop()
	}
}

// fireOnce calls FireSchedules once.
func fireOnce(ctx context.Context, runner driver.Scheduler) (fired int, next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return runner.FireSchedules(ctx)
}
