package postgres

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// slice is how many rows Cancel, Edit, Redrive and Prune handle in one statement. sql/prune.sql has
// it, too.
const slice = 1000

// Prune implements [driver.Reclaimer] with sql/prune.sql. Dead and cancelled jobs are found along
// their indexes. Completed ones have none: it looks at the jobs with the lowest ids, a thousand a
// call, until they are too young, and then begins anew. While another process prunes, it does
// nothing. It also removes registrations of sleeping workers that are a minute old, full buckets of
// rates, workers that vanished an hour ago, and old statistics. Jobs that the database refuses to
// delete are logged, and passed over for a minute.
func (b *Backend) Prune(ctx context.Context) (removed int, more bool, err error) {
	if b.sleepers.shouldSweep(time.Now()) {
		err := b.run(ctx, "prune", nil, func(db queue.DB) error {
			for _, text := range []string{b.sql["sweep_sleepers"], b.sql["sweep_tokens"], b.sql["sweep_workers"], b.sql["sweep_stats"]} {
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
	from := b.sweep.Next()
	last, completed, others, more, err := b.pruneFrom(ctx, from)
	if err != nil || !last.Valid {
		return 0, false, err
	}
	goOn := b.sweep.Advance(last.Int64, more, completed > 0)
	return completed + others, goOn || others >= slice, nil
}

// pruneFrom runs sql/prune.sql. If it cannot remove a job, it removes the others.
func (b *Backend) pruneFrom(ctx context.Context, from int64) (last sql.NullInt64, completed, others int, more bool, err error) {
	r := b.options.Retention
	args := []any{from, sqlkit.Microseconds(max(r.Completed, 0)), sqlkit.Microseconds(max(r.Dead, 0)), r.Archive, lockKey("prune", b.options.Schema)}
	do := func(text string, arg ...any) error {
		var n, m int
		err := b.run(ctx, "prune", nil, func(db queue.DB) error {
			return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&last, &n, &m, &more) }, text, append(slices.Clone(args), arg...)...)
		})
		if err == nil {
			completed, others = completed+n, others+m
		}
		return err
	}
	prune := newPrune(b.sql["prune"])
	err = b.passBad(ctx, "prune", &b.badRows.prunes, prune, args, do)
	if err == nil && !last.Valid && len(b.badRows.prunes.IDs()) > 0 {
		err = do(prune.allowed, idArray(nil)) // removes none, and tells where the next slice begins
	}
	return last, completed, others, more, err
}
