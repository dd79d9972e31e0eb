package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Pause implements [driver.Pauser] with sql/pause_kind.sql, sql/pause_rule.sql, or
// sql/schedule_read.sql and sql/schedule_pause.sql.
func (b *Backend) Pause(ctx context.Context, db queue.DB, target queue.Target, paused bool) (changed bool, err error) {
	if err := driver.CheckTarget(target); err != nil {
		return false, fmt.Errorf("postgres: pause: %w", err)
	}
	switch {
	case target.Schedule != "":
		return b.pauseSchedule(ctx, db, target.Schedule, paused)
	case target.Kind != "":
		return b.runPause(ctx, db, b.sql["pause_kind"], target.Kind, paused, !b.options.Silent)
	}
	name := cmp.Or(target.Queue, target.InQueue)
	changed, err = b.runPause(ctx, db, b.sql["pause_rule"], name, target.Group, paused, !b.options.Silent)
	b.rules.endHolds()
	return changed, err
}

// runPause runs a statement that returns whether it has changed something.
func (b *Backend) runPause(ctx context.Context, db queue.DB, query string, args ...any) (changed bool, err error) {
	err = b.run(ctx, "pause", db, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var notified sql.NullString
			return rows.Scan(&changed, &notified)
		}, query, args...)
	})
	return changed, err
}

// PausedKinds implements [driver.Pauser] with sql/paused_kinds.sql.
func (b *Backend) PausedKinds(ctx context.Context) ([]string, error) {
	return readAll(ctx, b, "paused kinds", sqlkit.ScanValue[string], b.sql["paused_kinds"])
}
