package middleware

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// MemoryDedup is a [DedupStore] for one process. It forgets everything when the process ends. The
// zero value is ready for use; it must not be copied. It is safe for concurrent use.
//
// It stands outside of [Tx]. Inside, Once returns an error and does not call f, because it would
// remember an effect that Tx may still roll back.
type MemoryDedup struct {
	mu      sync.Mutex
	keys    map[string]*deduped
	sweepAt int // at this number of keys the expired ones are removed
}

// deduped is a key whose effect is under way or has happened.
type deduped struct {
	since time.Time // when its effect began
	until time.Time // the end of its window; zero while it is under way
}

var errInTx = errors.New("inside of Tx it would remember what may still be rolled back: put Dedup outside of Tx, or use SQLDedup")

// Once implements [DedupStore]. The window begins when f has succeeded. While f runs for the key,
// another call returns [queue.Snooze] at once, so that it does not occupy a slot of its worker.
// That job comes back after as long as f has run so far, at least 100 ms and at most 10 s.
func (m *MemoryDedup) Once(ctx context.Context, key string, window time.Duration, f func(context.Context) error) (ran bool, err error) {
	if _, ok := TxFrom(ctx); ok {
		return false, fmt.Errorf("middleware: MemoryDedup: %w", errInTx)
	}
	mine, other := m.begin(key)
	switch {
	case mine != nil:
		return true, m.run(ctx, key, mine, window, f)
	case other != nil:
		return false, queue.Snooze(min(max(time.Since(other.since), 100*time.Millisecond), 10*time.Second))
	}
	return false, nil
}

// begin returns a new entry for the key, or another call's entry that is under way. It returns
// neither if the effect has happened.
func (m *MemoryDedup) begin(key string) (mine, other *deduped) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.keys[key]; ok {
		switch {
		case d.until.IsZero():
			return nil, d
		case now.Before(d.until):
			return nil, nil
		}
	}
	m.sweep()
	mine = &deduped{since: now}
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
	}()
	err = f(ctx)
	succeeded = err == nil
	return err
}

// sweep removes expired keys each time the map has doubled, so its cost per key is constant.
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
