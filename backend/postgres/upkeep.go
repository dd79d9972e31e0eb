package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// slice is how many rows Redrive and Prune handle in one statement. sql/prune.sql has it, too.
const slice = 1000

// Redrive implements [queue.Redriver] with sql/redrive.sql: first jobs without a key, a thousand a
// statement, and then those with a key, one a statement. So it never holds one key while it waits
// for another.
func (b *Backend) Redrive(ctx context.Context, which queue.Redrive) (n int, err error) {
	if err := which.Check(); err != nil {
		return 0, fmt.Errorf("postgres: redrive: %w", err)
	}
	for _, pass := range []struct {
		keyed bool
		limit int
	}{{false, slice}, {true, 1}} {
		var last int64
		for scanned := pass.limit; scanned == pass.limit; {
			var redriven int
			scanned, redriven, last, err = b.redrive(ctx, which, last, pass.limit, pass.keyed)
			if n += redriven; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// redrive runs sql/redrive.sql once, for jobs behind the id last.
func (b *Backend) redrive(ctx context.Context, which queue.Redrive, last int64, limit int, keyed bool) (scanned, redriven int, seen int64, err error) {
	for collisions := 0; ; collisions++ {
		err = b.run(ctx, "redrive", nil, func(db queue.DB) error {
			var woken int64
			return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&scanned, &redriven, &seen, &woken) }, b.sql.redrive,
				sqlkit.OrNull(which.ID), sqlkit.OrNull(which.Queue), sqlkit.OrNull(which.Kind), limit, last, keyed)
		})
		// A transaction that enqueued the key has committed meanwhile: the next run of the
		// statement sees it.
		if sqlState(err) != uniqueViolation || collisions == retryLimit {
			return scanned, redriven, seen, err
		}
	}
}

// Prune implements [queue.Pruner] with sql/prune.sql. Dead and cancelled jobs are found along their indexes.
// Completed ones have none: it looks at the jobs with the lowest ids, a thousand a call, until they
// are too young, and then begins anew. While another process prunes, it does nothing. It also
// removes registrations of sleeping workers that are a minute old.
func (b *Backend) Prune(ctx context.Context) (removed int, more bool, err error) {
	if b.sleepers.shouldSweep(time.Now()) {
		err := b.run(ctx, "prune", nil, func(db queue.DB) error {
			_, err := db.ExecContext(ctx, b.sql.sweepSleepers)
			return err
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
