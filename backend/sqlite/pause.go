package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// PauseKinds implements [driver.Pauser].
func (b *Backend) PauseKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return b.changePauses(ctx, db, kinds, b.sql["pause_kind"])
}

// ResumeKinds implements [driver.Pauser].
func (b *Backend) ResumeKinds(ctx context.Context, db queue.DB, kinds ...string) error {
	return b.changePauses(ctx, db, kinds, b.sql["resume_kind"])
}

func (b *Backend) changePauses(ctx context.Context, db queue.DB, kinds []string, query string) error {
	if err := driver.CheckKinds(kinds); err != nil {
		return fmt.Errorf("sqlite: pause: %w", err)
	}
	return b.onHandle(ctx, "pause", db, func(ctx context.Context, db queue.DB) error {
		_, err := exec(ctx, db, query, stringList(kinds))
		return err
	})
}

// PausedKinds implements [driver.Pauser].
func (b *Backend) PausedKinds(ctx context.Context) (kinds []string, err error) {
	err = b.read(ctx, "paused kinds", func(db queue.DB) error {
		kinds = nil
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			var kind string
			err := rows.Scan(&kind)
			kinds = append(kinds, kind)
			return err
		}, b.sql["paused_kinds"])
	})
	return kinds, err
}

// errNoNotice is the error of ListenPauses: SQLite notifies nobody, and workers read the paused
// kinds every few seconds.
var errNoNotice = errors.New("sqlite: paused kinds are not notified")

// ListenPauses implements [driver.Pauser]. It returns an error: workers read the paused kinds every
// five seconds.
func (b *Backend) ListenPauses(context.Context, func()) error { return errNoNotice }
