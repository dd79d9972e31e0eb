package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// slice is how many rows Cancel, Edit, Redrive and Prune handle in one statement. sql/prune.sql has
// it, too.
const slice = 1000

// Prune implements [queue.Pruner] with sql/prune.sql. Dead and cancelled jobs are found along their
// indexes. Completed ones have none: it looks at the jobs with the lowest ids, a thousand a call,
// until they are too young, and then begins anew. While another process prunes, it does nothing. It
// also removes registrations of sleeping workers that are a minute old, full buckets of rates,
// workers that vanished an hour ago, and old statistics.
func (b *Backend) Prune(ctx context.Context) (removed int, more bool, err error) {
	if b.sleepers.shouldSweep(time.Now()) {
		err := b.run(ctx, "prune", nil, func(db queue.DB) error {
			for _, text := range []string{b.sql.sweepSleepers, b.sql.sweepTokens, b.sql.sweepWorkers, b.sql.sweepStats} {
				if _, err := db.ExecContext(ctx, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, false, err
		}
	}
	r := b.options.Retention
	from := b.sweep.Next()
	var last sql.NullInt64
	var completed, others int
	err = b.run(ctx, "prune", nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&last, &completed, &others, &more) }, b.sql.prune,
			from, sqlkit.Microseconds(max(r.Completed, 0)), sqlkit.Microseconds(max(r.Dead, 0)), r.Archive, lockKey("prune", b.options.Schema))
	})
	if err != nil || !last.Valid {
		return 0, false, err
	}
	goOn := b.sweep.Advance(last.Int64, more, completed > 0)
	return completed + others, goOn || others >= slice, nil
}
