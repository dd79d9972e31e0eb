package resilience

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// perKind holds one T for each kind, made when the kind is first used.
type perKind[T any] struct {
	make func(kind string) T

	mu   sync.RWMutex
	made map[string]T
}

func newPerKind[T any](make func(kind string) T) *perKind[T] {
	return &perKind[T]{make: make, made: map[string]T{}}
}

func (p *perKind[T]) get(kind string) T {
	p.mu.RLock()
	v, ok := p.made[kind]
	p.mu.RUnlock()
	if ok {
		return v
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok = p.made[kind]; !ok {
		v = p.make(kind)
		p.made[kind] = v
	}
	return v
}

// spread returns d plus up to a tenth at random, so that jobs that were snoozed together do not
// come back together.
func spread(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// The most that an option may be. Sums of such values do not overflow.
const (
	maxCount    = 1_000_000
	maxDuration = 365 * 24 * time.Hour
)

// checkCount panics unless 0 ≤ n ≤ maxCount.
func checkCount(field string, n int) {
	if n < 0 || n > maxCount {
		panic(fmt.Sprintf("resilience: %s %d: between 0 (for the default) and %d", field, n, maxCount))
	}
}

// checkDuration panics unless 0 ≤ d ≤ maxDuration.
func checkDuration(field string, d time.Duration) {
	if d < 0 || d > maxDuration {
		panic(fmt.Sprintf("resilience: %s %v: between 0 and %v", field, d, maxDuration))
	}
}
