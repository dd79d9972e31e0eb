package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// change changes chosen jobs. apply changes up to a thousand jobs, those of them that are still
// chosen, and returns how many. Its statement begins with their ids and the parameters of filter.
// On the backend's own handle each call has a transaction of its own, and others have their turns
// in between. before and after begin and end each transaction; before has to write.
type change struct {
	operation     string
	which         queue.Selection
	statuses      []queue.Status
	before, after func(ctx context.Context, db queue.DB) error
	apply         func(ctx context.Context, db queue.DB, args []any) (n int, err error)
	afterEach     string // a statement to run after each call of apply, with its ids; "" for none
	committed     func() // called after each transaction of the backend's own
}

// maxSpan is how far apart the first and the last id of a statement are at most. With the
// statistics of a short table SQLite reads all rows in between.
const maxSpan = 20 * sliceSize

// filter returns the parameters that say which jobs are chosen, but for their ids and statuses.
func (c change) filter() []any {
	w := c.which
	return []any{sqlkit.OrNull(w.Queue), sqlkit.OrNull(w.Kind), sqlkit.OrNull(w.Group), sqlkit.OrNull(w.Key)}
}

// changeJobs makes a change through db, and returns how many jobs it has changed.
func (b *Backend) changeJobs(ctx context.Context, db queue.DB, c change) (n int, err error) {
	if !b.isOwn(db) {
		err = b.onHandle(ctx, c.operation, db, func(ctx context.Context, db queue.DB) error {
			n = 0
			if err := c.before(ctx, db); err != nil {
				return err
			}
			ids, err := b.choose(ctx, db, c)
			if err != nil {
				return err
			}
			return undoIfRefused(ctx, db, func() (refused []badrows.Row, err error) {
				n, refused, err = c.applyAll(ctx, db, ids)
				return refused, err
			})
		})
		if err != nil {
			return 0, err
		}
		return n, nil
	}
	var ids []int64
	err = b.read(ctx, c.operation, func(db queue.DB) (err error) {
		ids, err = b.choose(ctx, db, c)
		return err
	})
	var refused []badrows.Row
	for part := range slices.Chunk(ids, sliceSize) {
		var changed int
		var bad []badrows.Row
		if err == nil {
			err = b.write(ctx, c.operation, func(ctx context.Context, db queue.DB) (err error) {
				if err := c.before(ctx, db); err != nil {
					return err
				}
				changed, bad, err = c.applyAll(ctx, db, part)
				return err
			})
		}
		if err != nil {
			return n, err
		}
		n, refused = n+changed, append(refused, bad...)
		c.committed()
	}
	if err == nil {
		err = wrap(ctx, c.operation, badrows.AsError(refused))
	}
	return n, err
}

// applyAll applies the change to jobs, within a transaction. It returns how many it has changed,
// and those that a trigger refuses to change.
func (c change) applyAll(ctx context.Context, db queue.DB, ids []int64) (n int, refused []badrows.Row, err error) {
	var statuses list
	for _, s := range c.statuses {
		statuses.string(string(s))
	}
	args := append(append([]any{nil}, c.filter()...), statuses.String(), now())
	for len(ids) > 0 {
		part, _ := slices.BinarySearch(ids, ids[0]+maxSpan)
		part = max(min(part, sliceSize), 1) // 0 if the id is the highest number that there is
		bad, err := halve(ctx, db, ids[:part], func(some []int64) error {
			args[0] = idList(some)
			changed, err := c.apply(ctx, db, args)
			if err == nil {
				n += changed
			}
			if err != nil || c.afterEach == "" {
				return err
			}
			_, err = exec(ctx, db, c.afterEach, args[0])
			return err
		})
		if ids, refused = ids[part:], append(refused, bad...); err != nil {
			return 0, refused, err
		}
	}
	return n, refused, c.after(ctx, db)
}

// choose returns the ids of the chosen jobs in ascending order, with sql/choose.sql, and
// sql/choose_ended.sql for statuses without an index. A job whose status changes between two
// statements is chosen twice, and changed once.
func (b *Backend) choose(ctx context.Context, db queue.DB, c change) ([]int64, error) {
	if c.which.IDs != nil {
		ids := slices.Clone(c.which.IDs)
		slices.Sort(ids)
		return slices.Compact(ids), nil
	}
	var parts []string
	for _, status := range c.statuses {
		query := b.sql["choose"]
		if status == queue.StatusCompleted || status == queue.StatusFailed {
			query = b.sql["choose_ended"]
		}
		parts = append(parts, "SELECT * FROM ("+strings.ReplaceAll(strings.TrimRight(query, "; \n"), string(queue.StatusPending), string(status))+")")
	}
	ids, err := queryIDs(ctx, db, strings.Join(parts, " UNION "), append(c.filter(), 0, int64(math.MaxInt64))...)
	slices.Sort(ids)
	return ids, err
}

// Cancel implements [driver.Canceller] with sql/choose.sql and sql/cancel.sql.
func (b *Backend) Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	statuses := driver.Cancellable()
	if err := which.Check(statuses...); err != nil {
		return 0, fmt.Errorf("sqlite: cancel: %w", err)
	}
	asked := make(map[string][]int64) // the ids of running jobs, by worker
	return b.changeJobs(ctx, db, change{
		operation: "cancel", which: which, statuses: which.Of(statuses...),
		before: func(ctx context.Context, db queue.DB) error {
			clear(asked)
			_, err := exec(ctx, db, b.sql["note_cancel"], 0)
			return err
		},
		apply: func(ctx context.Context, db queue.DB, args []any) (n int, err error) {
			err = queryRows(ctx, db, func(rows *sql.Rows) error {
				var id int64
				var worker sql.NullString
				err := rows.Scan(&id, &worker)
				if n++; worker.Valid {
					asked[worker.String] = append(asked[worker.String], id)
				}
				return err
			}, b.sql["cancel"], args...)
			return n, err
		},
		after: func(ctx context.Context, db queue.DB) error {
			if len(asked) == 0 {
				return nil
			}
			_, err := exec(ctx, db, b.sql["note_cancel"], 1)
			return err
		},
		committed: func() { b.file.hint(b.options.Prefix, asked) },
	})
}

// Redrive implements [driver.Editor] with sql/choose.sql and sql/redrive.sql.
func (b *Backend) Redrive(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Redrivable()...); err != nil {
		return 0, fmt.Errorf("sqlite: redrive: %w", err)
	}
	return b.changeWaiting(ctx, db, change{operation: "redrive", which: which, statuses: which.Of(queue.StatusDead)}, b.sql["redrive"])
}

// Edit implements [driver.Editor] with sql/choose.sql and sql/edit.sql.
func (b *Backend) Edit(ctx context.Context, db queue.DB, which queue.Selection, c queue.JobChange) (n int, err error) {
	statuses := driver.Editable()
	if err := cmp.Or(which.Check(statuses...), c.Check(b.options.MaxPayload)); err != nil {
		return 0, fmt.Errorf("sqlite: edit: %w", err)
	}
	var due, payload any
	switch {
	case c.Delay > 0:
		due = now() + 1 + sqlkit.Microseconds(c.Delay) // now has been truncated
	case !c.ScheduledAt.IsZero():
		due = c.ScheduledAt.UnixMicro()
	}
	if c.Payload != nil {
		payload = string(c.Payload)
	}
	return b.changeWaiting(ctx, db, change{operation: "edit", which: which, statuses: which.Of(statuses...)}, b.sql["edit"],
		c.RunNow, due, c.Priority, payload, sqlkit.OrNull(c.Queue), sqlkit.OrNull(c.MaxAttempts))
}

// Delete implements [driver.Editor] with sql/choose.sql, sql/choose_ended.sql, sql/delete.sql and
// sql/remove_results.sql.
func (b *Backend) Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	statuses := driver.Deletable()
	if err := which.Check(statuses...); err != nil {
		return 0, fmt.Errorf("sqlite: delete: %w", err)
	}
	return b.changeWaiting(ctx, db, change{
		operation: "delete", which: which, statuses: which.Of(statuses...), afterEach: b.sql["remove_results"],
	}, b.sql["delete"])
}

// changeWaiting makes a change whose statement returns for each job the queue whose workers to
// wake, or "", and wakes them.
func (b *Backend) changeWaiting(ctx context.Context, db queue.DB, c change, query string, more ...any) (n int, err error) {
	var again requeued
	c.before = func(ctx context.Context, db queue.DB) error {
		again = requeued{}
		_, err := exec(ctx, db, b.sql["note_cancel"], 0)
		return err
	}
	c.apply = func(ctx context.Context, db queue.DB, args []any) (n int, err error) {
		err = queryRows(ctx, db, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			if n++; name != "" {
				again.add(name)
			}
			return err
		}, query, append(slices.Clone(args), more...)...)
		return n, err
	}
	c.after = func(ctx context.Context, db queue.DB) error { return b.bumpID(ctx, db, &again) }
	c.committed = func() { b.wakeRequeued(true, again) }
	n, err = b.changeJobs(ctx, db, c)
	if err == nil && !b.isOwn(db) {
		b.wakeRequeued(false, again)
	}
	return n, err
}
