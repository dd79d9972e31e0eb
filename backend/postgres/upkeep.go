package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/errandhq/errand/queue"
)

// slice is how many rows Redrive and Prune handle in one statement.
const slice = 1000

// Redrive implements [queue.Redriver] with sql/redrive.sql, a thousand jobs a statement.
func (b *Backend) Redrive(ctx context.Context, which queue.Redrive) (n int, err error) {
	if err := which.Check(); err != nil {
		return 0, fmt.Errorf("postgres: redrive: %w", err)
	}
	var last int64
	for collisions := 0; ; {
		var looked, revived int
		err := b.on(ctx, "redrive", nil, func(db queue.DB) error {
			var woken int64
			return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&looked, &revived, &last, &woken) }, b.sql.redrive,
				orNull(which.ID), orNull(which.Queue), orNull(which.Kind), slice, last)
		})
		if sqlState(err) == uniqueViolation && collisions < retryLimit {
			collisions++ // a transaction that enqueued one of the keys has committed meanwhile: now it is seen
			continue
		}
		if err != nil {
			return n, err
		}
		if n += revived; looked < slice {
			return n, nil
		}
	}
}

// Prune implements [queue.Pruner] with sql/prune.sql: it looks at the jobs with
// the lowest ids, a thousand a call, until they are too young to be over; then
// it begins anew.
func (b *Backend) Prune(ctx context.Context) (removed int, more bool, err error) {
	r := b.options.Retention
	from := b.pruned.Load()
	var last int64
	err = b.on(ctx, "prune", nil, func(db queue.DB) error {
		return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&last, &removed, &more) }, b.sql.prune,
			from, slice, microseconds(max(r.Completed, 0)), microseconds(max(r.Dead, 0)), r.Archive)
	})
	if err != nil {
		return 0, false, err
	}
	if !more {
		last = 0
	}
	b.pruned.CompareAndSwap(from, last)
	return removed, more, nil
}

// orNull is v, or NULL where it is the zero value.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// duration is us microseconds, at most the longest duration there is.
func duration(us int64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
}
