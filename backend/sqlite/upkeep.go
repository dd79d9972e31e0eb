package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/queue"
)

// sliceSize is how many rows Cancel, Edit, Redrive and Prune handle in one transaction.
const sliceSize = 1000

// Prune implements [driver.Reclaimer] with sql/old.sql and sql/prune.sql. It reads the jobs from
// the lowest id on, a slice of a thousand a call. When it meets jobs that are too young to be
// removed, the pass ends, and the next pass begins at the lowest id. Ten slices in a row without a
// job to remove also end a pass, and the next pass continues after them. Prune writes only if it
// removes a job, a full bucket of a rate, a worker that vanished an hour ago, or old statistics.
// Like Reclaim it empties a write-ahead log of more than 8 MB.
func (b *Backend) Prune(ctx context.Context) (removed int, more bool, err error) {
	b.emptyWAL(ctx)
	from := b.sweep.Next()
	at := time.Now()
	completed, dead := at.Add(-max(b.options.Retention.Completed, 0)).UnixMicro(), at.Add(-max(b.options.Retention.Dead, 0)).UnixMicro()
	var expired []int64
	last := from
	err = b.read(ctx, "prune", func(db queue.DB) error {
		expired, more, last = nil, false, from
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			var status queue.Status
			var created, updated int64
			if err := rows.Scan(&last, (*string)(&status), &created, &updated); err != nil {
				return err
			}
			switch status {
			case queue.StatusCompleted:
				if updated <= completed {
					expired = append(expired, last)
				}
			case queue.StatusDead, queue.StatusCancelled:
				if updated <= dead {
					expired = append(expired, last)
				}
			}
			// If no job of the slice is that old, the jobs that follow are younger still.
			more = more || created <= max(completed, dead)
			return nil
		}, b.sql["old"], from, sliceSize)
	})
	expired = without(expired, b.badRows.prunes.IDs())
	if err == nil && len(expired) > 0 {
		removed, err = b.remove(ctx, expired, completed, dead)
	}
	if err == nil {
		err = b.removeOrphans(ctx, from)
	}
	if err == nil {
		err = b.sweepFleet(ctx)
	}
	if err != nil {
		return 0, false, err
	}
	goOn := b.sweep.Advance(last, more, removed > 0)
	if !goOn {
		err = b.sweepTokens(ctx) // once a pass: it reads all buckets
	}
	return removed, goOn, err
}

// remove deletes the jobs, or moves them to the archive. It leaves a job whose retention is no
// longer over, because it has been redriven meanwhile.
func (b *Backend) remove(ctx context.Context, ids []int64, completed, dead int64) (n int, err error) {
	var refused []badrows.Row
	err = b.write(ctx, "prune", func(ctx context.Context, db queue.DB) (err error) {
		n = 0
		refused, err = halve(ctx, db, ids, func(part []int64) error {
			removed, err := b.removeSome(ctx, db, part, completed, dead)
			n += removed
			return err
		})
		return err
	})
	b.badRows.prunes.Note(b.options.Logger, "prune", refused)
	return n, err
}

// removeSome removes jobs within a transaction. After an error all of them are there.
func (b *Backend) removeSome(ctx context.Context, db queue.DB, ids []int64, completed, dead int64) (n int, err error) {
	err = undoIfRefused(ctx, db, func() (_ []badrows.Row, err error) {
		if b.options.Retention.Archive {
			if _, err := exec(ctx, db, b.sql["archive"], idList(ids), completed, dead); err != nil {
				return nil, err
			}
		}
		for _, id := range ids {
			result, err := exec(ctx, db, b.sql["prune"], id, completed, dead)
			if err != nil {
				return nil, err
			}
			removed, err := result.RowsAffected()
			if err != nil {
				return nil, err
			}
			n += int(removed)
		}
		_, err = exec(ctx, db, b.sql["remove_results"], idList(ids))
		return nil, err
	})
	if err != nil {
		n = 0
	}
	return n, err
}

// idList returns the JSON array of ids.
func idList(ids []int64) string {
	var l list
	for _, id := range ids {
		l.int(id)
	}
	return l.String()
}
