package engine

import (
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// pausePoll is how often a worker reads the paused kinds if the backend does not notify it, unless
// its Poll is longer. If the backend does, the worker reads them every longestSleep as well.
const pausePoll = 5 * time.Second

// pauseLoop keeps the paused kinds up to date, until ctx ends.
func (u *upkeep) pauseLoop(ctx context.Context, pauser driver.Pauser) {
	log := u.watchCalls("read paused kinds")
	changed := make(chan struct{}, 1)
	deaf := make(chan struct{})
	go func() {
		defer close(deaf)
		_ = pauser.ListenPauses(ctx, func() { signal(changed) }) // without it, the loop polls
	}()
	defer func() { <-deaf }()
	every, becomesDeaf := longestSleep, deaf
	for {
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-becomesDeaf:
			every, becomesDeaf = max(pausePoll, u.wakeups.poll()), nil // known from now on
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		if err := u.readPauses(ctx, pauser); ctx.Err() == nil {
			log.report(err)
		}
	}
}

// readPauses reads which kinds are paused.
func (u *upkeep) readPauses(ctx context.Context, pauser driver.Pauser) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	kinds, err := pauser.PausedKinds(ctx)
	if err == nil {
		if u.held.pause(kinds) {
			signal(u.wakeups.wake)
			signal(u.held.room)
		}
	}
	return err
}

// pause notes which kinds are paused, and releases their jobs that have not been started. It
// reports whether other kinds are no longer paused.
func (held *holding) pause(kinds []string) (hasResumed bool) {
	held.mu.Lock()
	defer held.mu.Unlock()
	hasResumed = slices.ContainsFunc(held.paused, func(kind string) bool { return !slices.Contains(kinds, kind) })
	held.paused = kinds
	for h := range held.jobs.all() {
		if h.state == stateWaiting && held.isPaused(h.job) {
			held.release(h)
		}
	}
	return hasResumed
}

// isPaused reports whether the worker leaves jobs of that kind alone for now. The caller holds
// held.mu.
func (held *holding) isPaused(job *queue.Job) bool {
	return held.kinds != nil && slices.Contains(held.paused, job.Kind)
}

// kindsToClaim returns the worker's kinds without the paused ones; nil means every kind. ok is
// false if all of them are paused.
func (held *holding) kindsToClaim() (kinds []string, ok bool) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.kinds == nil || len(held.paused) == 0 {
		return held.kinds, true
	}
	kinds = slices.DeleteFunc(slices.Clone(held.kinds), func(kind string) bool { return slices.Contains(held.paused, kind) })
	return kinds, len(kinds) > 0
}
