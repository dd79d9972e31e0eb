package sqlite

import (
	"cmp"
	"context"
	"fmt"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Pause implements [driver.Pauser].
func (b *Backend) Pause(ctx context.Context, db queue.DB, target queue.Target, paused bool) (changed bool, err error) {
	if err := driver.CheckTarget(target); err != nil {
		return false, fmt.Errorf("sqlite: pause: %w", err)
	}
	switch {
	case target.Schedule != "":
		names, pause := schedules.Pause(paused, target.Schedule)
		n, err := b.changeSchedules(ctx, "pause", db, names, pause)
		return n > 0, err
	case target.Kind != "":
		return b.pauseKind(ctx, db, target.Kind, paused)
	}
	return b.pauseRule(ctx, db, queue.Rule{Queue: cmp.Or(target.Queue, target.InQueue), Group: target.Group, Paused: paused})
}

// pauseKind pauses or resumes a kind with sql/pause_kind.sql or sql/resume_kind.sql. With
// sql/rules_changed.sql it tells the workers of all processes.
func (b *Backend) pauseKind(ctx context.Context, db queue.DB, kind string, paused bool) (changed bool, err error) {
	query := b.sql["resume_kind"]
	if paused {
		query = b.sql["pause_kind"]
	}
	err = b.onHandle(ctx, "pause", db, func(ctx context.Context, db queue.DB) error {
		changed, err = execChanges(ctx, db, query, kind)
		if err == nil && changed {
			_, err = exec(ctx, db, b.sql["rules_changed"])
		}
		return err
	})
	return changed, err
}

// pauseRule sets the Paused of a rule with sql/pause_rule.sql and sql/remove_rule.sql.
func (b *Backend) pauseRule(ctx context.Context, db queue.DB, rule queue.Rule) (changed bool, err error) {
	err = b.changeRules(ctx, "pause", db, []queue.Rule{rule}, func(ctx context.Context, db queue.DB, r queue.Rule) error {
		changed, err = execChanges(ctx, db, b.sql["pause_rule"], r.Queue, r.Group, r.Paused)
		return err
	})
	return changed, err
}

// execChanges runs a statement that returns no rows, and reports whether it has changed some.
func execChanges(ctx context.Context, db queue.DB, query string, args ...any) (changed bool, err error) {
	result, err := exec(ctx, db, query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// PausedKinds implements [driver.Pauser].
func (b *Backend) PausedKinds(ctx context.Context) ([]string, error) {
	return readAll(ctx, b, "paused kinds", sqlkit.ScanValue[string], b.sql["paused_kinds"])
}
