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
func (r *run) pauseLoop(ctx context.Context, pauser driver.Pauser) {
	log := r.watchCalls("read paused kinds")
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
			every, becomesDeaf = max(pausePoll, r.poll()), nil // known from now on
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		if err := r.readPauses(ctx, pauser); ctx.Err() == nil {
			log.report(err)
		}
	}
}

// readPauses reads which kinds are paused.
func (r *run) readPauses(ctx context.Context, pauser driver.Pauser) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	kinds, err := pauser.PausedKinds(ctx)
	if err == nil {
		r.pause(kinds)
	}
	return err
}

// pause notes which kinds are paused. It releases their jobs that have not been started, and claims
// again if other kinds are no longer paused.
func (r *run) pause(kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isResumed := slices.ContainsFunc(r.paused, func(kind string) bool { return !slices.Contains(kinds, kind) })
	r.paused = kinds
	for h := range r.held.all() {
		if h.state == stateWaiting && r.isPaused(h.job) {
			r.release(h)
		}
	}
	if isResumed {
		signal(r.wake)
		signal(r.room)
	}
}

// isPaused reports whether the worker leaves jobs of that kind alone for now. The caller holds
// r.mu.
func (r *run) isPaused(job *queue.Job) bool {
	return r.kinds != nil && slices.Contains(r.paused, job.Kind)
}

// kindsToClaim returns the worker's kinds without the paused ones; nil means every kind. ok is
// false if all of them are paused.
func (r *run) kindsToClaim() (kinds []string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil || len(r.paused) == 0 {
		return r.kinds, true
	}
	kinds = slices.DeleteFunc(slices.Clone(r.kinds), func(kind string) bool { return slices.Contains(r.paused, kind) })
	return kinds, len(kinds) > 0
}
