package engine

import (
	"slices"

	"github.com/errandhq/errand/queue"
)

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
