package middleware

import (
	"context"
	"sync"
	"time"
)

// MemoryDedup is a [DedupStore] for one process, which forgets everything when it
// ends. The zero value is ready for use; it must not be copied.
type MemoryDedup struct {
	mu      sync.Mutex
	keys    map[string]*deduped
	sweepAt int // how many keys there may be before those that are over are removed
}

// deduped is a key whose effect is under way, or has happened.
type deduped struct {
	done  chan struct{} // closed when it is no longer under way
	until time.Time     // the end of its window; zero while it is under way
}

// Once implements [DedupStore]. The window begins when f has succeeded.
func (m *MemoryDedup) Once(ctx context.Context, key string, window time.Duration, f func(context.Context) error) (ran bool, err error) {
	for {
		mine, other := m.begin(key)
		if mine != nil {
			return true, m.run(ctx, key, mine, window, f)
		}
		if other == nil {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-other.done:
		}
	}
}

// begin returns a new entry for the key; or another's that is under way; or
// neither, when the effect has happened.
func (m *MemoryDedup) begin(key string) (mine, other *deduped) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.keys[key]; ok {
		switch {
		case d.until.IsZero():
			return nil, d
		case time.Now().Before(d.until):
			return nil, nil
		}
	}
	m.sweep()
	mine = &deduped{done: make(chan struct{})}
	m.keys[key] = mine
	return mine, nil
}

// run calls f, and frees the key unless it succeeds.
func (m *MemoryDedup) run(ctx context.Context, key string, d *deduped, window time.Duration, f func(context.Context) error) (err error) {
	succeeded := false
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if succeeded {
			d.until = time.Now().Add(window)
		} else {
			delete(m.keys, key)
		}
		close(d.done)
	}()
	err = f(ctx)
	succeeded = err == nil
	return err
}

// sweep removes what is over whenever the map has doubled since the last time,
// which costs each key a constant share.
func (m *MemoryDedup) sweep() {
	const least = 1000
	if m.keys == nil {
		m.keys = make(map[string]*deduped)
		m.sweepAt = least
	}
	if len(m.keys) < m.sweepAt {
		return
	}
	now := time.Now()
	for k, d := range m.keys {
		if !d.until.IsZero() && !now.Before(d.until) {
			delete(m.keys, k)
		}
	}
	m.sweepAt = max(2*len(m.keys), least)
}
