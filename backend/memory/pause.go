package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Pause implements [driver.Pauser].
func (q *Queue) Pause(ctx context.Context, db queue.DB, target queue.Target, paused bool) (changed bool, err error) {
	if err := driver.CheckTarget(target); err != nil {
		return false, failed("pause", err)
	}
	if target.Schedule != "" {
		names, pause := schedules.Pause(paused, target.Schedule)
		n, err := q.change(ctx, "pause", db, names, pause)
		return n > 0, err
	}
	tx, err := txOf(db)
	if err != nil {
		return false, failed("pause", err)
	}
	err = q.do(ctx, "pause", tx, func() *memTx {
		if target.Kind != "" {
			changed = q.pauseKind(tx, target.Kind, paused)
		} else {
			changed = q.pauseRule(tx, queue.Rule{Queue: cmp.Or(target.Queue, target.InQueue), Group: target.Group, Paused: paused})
		}
		return nil
	})
	return changed, err
}

// pauseKind pauses or resumes a kind, at once or when tx commits. The caller holds q.mu.
func (q *Queue) pauseKind(tx *memTx, kind string, paused bool) (changed bool) {
	was := q.paused[kind]
	if tx == nil {
		q.setPaused(map[string]bool{kind: paused})
		return was != paused
	}
	if drafted, ok := tx.kinds[kind]; ok {
		was = drafted
	}
	if tx.kinds == nil {
		tx.kinds = make(map[string]bool)
	}
	tx.kinds[kind] = paused
	return was != paused
}

// pauseRule sets the Paused of a rule, at once or when tx commits. The caller holds q.mu.
func (q *Queue) pauseRule(tx *memTx, rule queue.Rule) (changed bool) {
	was := q.rules[ruleKey{rule.Queue, rule.Group}].Paused
	if tx != nil {
		for _, c := range tx.rules {
			if c.Queue == rule.Queue && c.Group == rule.Group {
				was = c.Paused || was && !c.isPause
			}
		}
	}
	q.setRules(tx, ruleChange{rule, true})
	return was != rule.Paused
}

// setPaused pauses and resumes kinds, and tells the workers that listen. The caller holds q.mu.
func (q *Queue) setPaused(change map[string]bool) {
	for kind, paused := range change {
		if q.paused[kind] = paused; !paused {
			delete(q.paused, kind)
		}
	}
	if len(change) == 0 {
		return
	}
	for l := range q.listeners {
		l.signal.Pauses = true
		l.notify()
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
