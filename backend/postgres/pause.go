package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// PauseKinds implements [driver.Pauser] with sql/pause_kinds.sql.
func (b *Backend) PauseKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return b.changePauses(ctx, db, kinds, false)
}

// ResumeKinds implements [driver.Pauser] with sql/pause_kinds.sql.
func (b *Backend) ResumeKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return b.changePauses(ctx, db, kinds, true)
}

func (b *Backend) changePauses(ctx context.Context, db queue.DB, kinds []string, resume bool) error {
	if err := driver.CheckKinds(kinds); err != nil {
		return fmt.Errorf("postgres: pause: %w", err)
	}
	return b.run(ctx, "pause", db, func(db queue.DB) error {
		_, err := db.ExecContext(ctx, b.sql["pause_kinds"], textArray(kinds), resume, !b.options.Silent)
		return err
	})
}

// PausedKinds implements [driver.Pauser] with sql/paused_kinds.sql.
func (b *Backend) PausedKinds(ctx context.Context) (kinds []string, err error) {
	err = b.run(ctx, "paused kinds", nil, func(db queue.DB) error {
		kinds = nil
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var kind string
			err := rows.Scan(&kind)
			kinds = append(kinds, kind)
			return err
		}, b.sql["paused_kinds"])
	})
	return kinds, err
}

// ListenPauses implements [driver.Pauser], on the connection of Listen.
func (b *Backend) ListenPauses(ctx context.Context, changed func()) error {
	return b.listenAs(ctx, &subscriber{wake: changed, failed: make(chan error, 1)})
}

// noteKinds calls the functions of ListenPauses.
func (b *Backend) noteKinds(l *listener) {
	b.listening.mu.Lock()
	defer b.listening.mu.Unlock()
	for s := range l.subscribers {
		if s.worker == "" {
			s.wake()
		}
	}
}
