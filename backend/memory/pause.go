package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// PauseKinds implements [driver.Pauser].
func (q *Queue) PauseKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return q.changePauses(ctx, db, kinds, true)
}

// ResumeKinds implements [driver.Pauser].
func (q *Queue) ResumeKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return q.changePauses(ctx, db, kinds, false)
}

func (q *Queue) changePauses(ctx context.Context, db queue.DB, kinds []string, paused bool) error {
	if err := driver.CheckKinds(kinds); err != nil {
		return failed("pause", err)
	}
	tx, err := txOf(db)
	if err != nil {
		return failed("pause", err)
	}
	return q.do(ctx, "pause", tx, func() *memTx {
		change := make(map[string]bool)
		if tx != nil && tx.kinds != nil {
			change = tx.kinds
		}
		for _, kind := range kinds {
			change[kind] = paused
		}
		if tx != nil {
			tx.kinds = change
		} else {
			q.setPaused(change)
		}
		return nil
	})
}

// setPaused pauses and resumes kinds, and tells who listens. The caller holds q.mu.
func (q *Queue) setPaused(change map[string]bool) {
	for kind, paused := range change {
		if q.paused[kind] = paused; !paused {
			delete(q.paused, kind)
		}
	}
	for changed := range q.pauses {
		if len(change) > 0 {
			select {
			case changed <- struct{}{}:
			default: // it has yet to notice the change before
			}
		}
	}
}

// PausedKinds implements [driver.Pauser].
func (q *Queue) PausedKinds(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("paused kinds", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.paused)), nil
}

// ListenPauses implements [driver.Pauser]. It calls changed in the caller's goroutine.
func (q *Queue) ListenPauses(ctx context.Context, changed func()) error {
	signal := make(chan struct{}, 1)
	q.mu.Lock()
	q.pauses[signal] = true
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.pauses, signal)
	}()
	for {
		select {
		case <-signal:
			changed()
		case <-ctx.Done():
			return nil
		}
	}
}
