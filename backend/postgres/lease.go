package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/clockwatch"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Extend implements [queue.Consumer] with sql/extend.sql, one statement for the jobs of each
// holder.
func (b *Backend) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := driver.CheckLease(lease); err != nil {
		return nil, nil, fmt.Errorf("postgres: extend: %w", err)
	}
	if slices.Contains(jobs, nil) {
		return nil, nil, fmt.Errorf("postgres: extend: %w", sqlkit.Invalid("Job", "nil"))
	}
	groups, lost := sqlkit.ByWorker(jobs, func(j *queue.Job) *queue.Job { return j })
	for _, held := range groups {
		lostIDs, askedIDs, err := b.extendHeld(ctx, held, lease)
		if err != nil {
			return lost, asked, err
		}
		lost = append(lost, held.With(lostIDs)...)
		asked = append(asked, held.With(askedIDs)...)
	}
	return lost, asked, nil
}

// extendHeld runs sql/extend.sql. It returns the ids of lost jobs, and of jobs that the worker is
// asked to cancel.
func (b *Backend) extendHeld(ctx context.Context, held sqlkit.Held[*queue.Job], lease time.Duration) (lost, asked []int64, err error) {
	ids, fences := arraysOf(held)
	err = b.run(ctx, "extend", nil, func(db queue.DB) error {
		lost, asked = nil, nil
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var id int64
			var isAsked bool
			err := rows.Scan(&id, &isAsked)
			if isAsked {
				asked = append(asked, id)
			} else {
				lost = append(lost, id)
			}
			return err
		}, b.sql["extend"], ids, fences, held.Worker, sqlkit.Microseconds(lease))
	})
	return lost, asked, err
}

// Reassign implements [driver.Reassigner] with sql/reassign.sql, one statement for the jobs of each
// holder. If one fails, no Worker is changed.
func (b *Backend) Reassign(ctx context.Context, workers []string, jobs ...*queue.Job) (left []*queue.Job, err error) {
	const operation = "reassign"
	if err := driver.CheckReassign(workers, jobs); err != nil {
		return nil, fmt.Errorf("postgres: %s: %w", operation, err)
	}
	all := sqlkit.ReassignedOf(workers, jobs)
	groups, left := sqlkit.ByWorker(all, func(r sqlkit.Reassigned) *queue.Job { return r.Job })
	for _, held := range groups {
		ids, fences := arraysOf(held)
		var to array
		for _, r := range held.Items {
			to.string(r.To)
		}
		done, err := b.queryIDs(ctx, operation, nil, b.sql["reassign"], ids, fences, held.Worker, to.String())
		if err != nil {
			return nil, err
		}
		left = append(left, held.Without(done)...)
	}
	sqlkit.Apply(all, left)
	return left, nil
}

// Reclaim implements [driver.Reclaimer] with sql/reclaim.sql. Jobs that the database refuses to
// change are logged, and passed over for a minute. Package clockwatch says what a jump of the
// server's clock does.
func (b *Backend) Reclaim(ctx context.Context, limit int) (jobs []*queue.Job, err error) {
	const operation = "reclaim"
	if limit < 1 {
		return nil, fmt.Errorf("postgres: reclaim: %w", sqlkit.Invalid("Limit", "%d: at least 1", limit))
	}
	limit = min(limit, maxClaimed)
	look := b.clock.Begin()
	upTo, by := look.Arrays()
	args := []any{limit, look.Latest, upTo, by, look.Since, look.Earliest}
	err = b.passBad(ctx, operation, &b.badRows.reclaims, newUpkeep(b.sql["reclaim"], 6, ""), args, func(text string, last ...any) error {
		var got *jobRows
		err := b.run(ctx, operation, nil, func(db queue.DB) error {
			got = newJobRows("", 0, 0)
			return sqlkit.QueryRows(ctx, db, got.scan, text, append(slices.Clip(args), last...)...)
		})
		if err == nil { // the last row has the clock
			n := len(got.jobs) - 1
			_, jump := b.clock.Note(look, got.jobs[n].CreatedAt.UnixMicro())
			clockwatch.Log(b.options.Logger, jump)
			b.ticks.NoteJump(jump)
			jobs = append(jobs, got.jobs[:n]...)
		}
		return err
	})
	if sqlState(err) == lockNotAvailable {
		return jobs, nil // the holder that has locked the row is about to settle or extend it
	}
	return jobs, err
}
