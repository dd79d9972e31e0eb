package upkeep

import (
	"slices"
	"sync/atomic"
)

// Pauses are the paused kinds, as far as they were read. Claims for named kinds leave them out. Its
// zero value knows of none. It is safe for concurrent use.
type Pauses struct{ kinds atomic.Pointer[[]string] }

// Set notes which kinds are paused. It reports whether others are no longer paused.
func (p *Pauses) Set(kinds []string) (hasResumed bool) {
	before := p.kinds.Swap(&kinds)
	return before != nil && slices.ContainsFunc(*before, func(kind string) bool { return !slices.Contains(kinds, kind) })
}

// AreKnown reports whether the paused kinds were read.
func (p *Pauses) AreKnown() bool { return p.kinds.Load() != nil }

// Has reports whether a kind is paused.
func (p *Pauses) Has(kind string) bool {
	kinds := p.kinds.Load()
	return kinds != nil && slices.Contains(*kinds, kind)
}

// Without returns kinds without the paused ones; none mean every kind. isPaused says that none is
// left, though there were some.
func (p *Pauses) Without(kinds []string) (left []string, isPaused bool) {
	if !slices.ContainsFunc(kinds, p.Has) {
		return kinds, false
	}
	left = slices.DeleteFunc(slices.Clone(kinds), p.Has)
	return left, len(left) == 0
}
