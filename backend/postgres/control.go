package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// choosePage is how many ids sql/choose.sql lists at once.
const choosePage = 100_000

// lockingChange is a statement that changes chosen jobs: a thousand at a time, without those that
// other transactions have locked, or one at a time, waiting for it.
type lockingChange struct{ many, one string }

// change runs a statement for the chosen jobs, on db. The parameters of the statement begin with
// the ids and the fields of which; then comes whether it changes one job only, and then args. The
// statement returns ids: of jobs that it has changed with true, and with false those that have to
// be changed one at a time, at the end. So it never holds one key while it waits for another. Jobs
// that the database refuses to change are named in the error; on the backend's own handle all
// others are changed.
func (b *Backend) change(ctx context.Context, operation string, db queue.DB, which queue.Selection, statuses []queue.Status, statement lockingChange, args ...any) (n int, err error) {
	filter := []any{sqlkit.OrNull(which.Queue), sqlkit.OrNull(which.Kind), sqlkit.OrNull(which.Group), sqlkit.OrNull(which.Key), statusArray(statuses)}
	many, one := append(slices.Clone(filter), false), append(slices.Clone(filter), true)
	many, one = append(many, args...), append(one, args...)
	var singly []int64
	var refused []badrows.Row
	err = b.chosen(ctx, operation, db, which, statuses, filter, func(ids []int64) error {
		for part := range slices.Chunk(ids, slice) {
			changed, others, bad, err := b.changeOthers(ctx, operation, db, statement.many, part, many)
			n, refused = n+changed, append(refused, bad...)
			if err != nil {
				return err
			}
			singly = append(singly, others...)
		}
		return nil
	})
	for _, id := range singly {
		if err != nil {
			break
		}
		var changed int
		var bad []badrows.Row
		changed, _, bad, err = b.changeOthers(ctx, operation, db, statement.one, []int64{id}, one)
		n, refused = n+changed, append(refused, bad...)
	}
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("postgres: %s: %w", operation, badrows.AsError(refused))
	}
	return n, err
}

// changeOthers is changeSlice without the jobs that the database refuses to change, which it
// returns. In a transaction of the caller's such a job is an error, which names it.
func (b *Backend) changeOthers(ctx context.Context, operation string, db queue.DB, statement string, ids []int64, args []any) (n int, singly []int64, refused []badrows.Row, err error) {
	if db != nil {
		n, singly, err = b.changeSlice(ctx, operation, db, statement, ids, args)
		return n, singly, nil, b.nameRefused(ctx, operation, err, ids, statement, args...)
	}
	refused, err = badrows.HalveIDs(ids, isOfRow, func(part []int64) error {
		changed, others, err := b.changeSlice(ctx, operation, nil, statement, part, args)
		n, singly = n+changed, append(singly, others...)
		return err
	})
	return n, singly, refused, err
}

// chosen calls do with the ids of the chosen jobs, in ascending order: those of statuses with an
// index first.
func (b *Backend) chosen(ctx context.Context, operation string, db queue.DB, which queue.Selection, statuses []queue.Status, filter []any, do func(ids []int64) error) error {
	if which.IDs != nil {
		ids := slices.Clone(which.IDs)
		slices.Sort(ids)
		return do(slices.Compact(ids))
	}
	for last, more := int64(0), true; more; {
		ids, err := b.queryIDs(ctx, operation, db, b.sql["choose"], append(slices.Clone(filter), last, choosePage)...)
		if err != nil {
			return err
		}
		if err := do(ids); err != nil {
			return err
		}
		if more = len(ids) == choosePage; more {
			last = ids[len(ids)-1]
		}
	}
	if slices.Contains(statuses, queue.StatusCompleted) || slices.Contains(statuses, queue.StatusFailed) {
		return b.chosenEnded(ctx, operation, db, filter, do)
	}
	return nil
}

// chosenEnded calls do with the ids of the chosen jobs whose status has no index. It looks at the
// whole table, a part at a time.
func (b *Backend) chosenEnded(ctx context.Context, operation string, db queue.DB, filter []any, do func(ids []int64) error) error {
	for last, more := int64(0), true; more; {
		var ids []int64
		args := append(slices.Clone(filter), last, choosePage)
		err := b.run(ctx, operation, db, func(db queue.DB) error {
			ids, more = nil, false
			return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
				var id int64
				var isLast bool
				err := rows.Scan(&id, &isLast)
				if isLast {
					last, more = id, true
				} else {
					ids = append(ids, id)
				}
				return err
			}, b.sql["choose_ended"], args...)
		})
		if err != nil {
			return err
		}
		slices.Sort(ids)
		if err := do(ids); err != nil {
			return err
		}
	}
	return nil
}

// changeSlice runs a statement of change for the jobs with these ids. It returns how many it has
// changed, and the ids of those to change one at a time.
func (b *Backend) changeSlice(ctx context.Context, operation string, db queue.DB, statement string, ids []int64, args []any) (changed int, singly []int64, err error) {
	args = append([]any{idArray(ids)}, args...)
	for collisions := 0; ; collisions++ {
		err = b.run(ctx, operation, db, func(db queue.DB) error {
			changed, singly = 0, nil
			return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
				var id int64
				var isChanged bool
				err := rows.Scan(&id, &isChanged)
				if isChanged {
					changed++
				} else {
					singly = append(singly, id)
				}
				return err
			}, statement, args...)
		})
		// A transaction that enqueued a job's key has committed meanwhile: the next run of the
		// statement sees it. A transaction of the caller's has failed.
		if sqlState(err) != uniqueViolation || db != nil || collisions == retryLimit {
			break
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return changed, singly, nil
}

func statusArray(statuses []queue.Status) string {
	var a array
	for _, s := range statuses {
		a.string(string(s))
	}
	return a.String()
}

// Cancel implements [driver.Canceller] with sql/choose.sql and sql/cancel.sql.
func (b *Backend) Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	statuses := driver.Cancellable()
	if err := which.Check(statuses...); err != nil {
		return 0, fmt.Errorf("postgres: cancel: %w", err)
	}
	return b.change(ctx, "cancel", db, which, which.Of(statuses...), locking(b.sql["cancel"]), !b.options.Silent)
}

// Redrive implements [driver.Editor] with sql/choose.sql and sql/redrive.sql.
func (b *Backend) Redrive(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Redrivable()...); err != nil {
		return 0, fmt.Errorf("postgres: redrive: %w", err)
	}
	return b.change(ctx, "redrive", db, which, which.Of(queue.StatusDead), locking(b.sql["redrive"]))
}

// Edit implements [driver.Editor] with sql/choose.sql and sql/edit.sql.
func (b *Backend) Edit(ctx context.Context, db queue.DB, which queue.Selection, c queue.JobChange) (n int, err error) {
	statuses := driver.Editable()
	if err := cmp.Or(which.Check(statuses...), c.Check(b.options.MaxPayload)); err != nil {
		return 0, fmt.Errorf("postgres: edit: %w", err)
	}
	var due any
	if !c.ScheduledAt.IsZero() {
		due = c.ScheduledAt
	}
	statement, args := withoutPayloadChange(locking(b.sql["edit"])), []any{c.RunNow, due, sqlkit.OrNull(sqlkit.Microseconds(c.Delay)), c.Priority,
		sqlkit.OrNull(c.Queue), sqlkit.OrNull(c.MaxAttempts)}
	if c.Payload != nil {
		statement, args = locking(b.sql["edit"]), append(args, string(c.Payload))
	}
	return b.change(ctx, "edit", db, which, which.Of(statuses...), statement, args...)
}

// Delete implements [driver.Editor] with sql/choose.sql, sql/choose_ended.sql and sql/delete.sql.
func (b *Backend) Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	statuses := driver.Deletable()
	if err := which.Check(statuses...); err != nil {
		return 0, fmt.Errorf("postgres: delete: %w", err)
	}
	return b.change(ctx, "delete", db, which, which.Of(statuses...), locking(b.sql["delete"]))
}

// handleControl tells workers of a notification of sql/cancel.sql, which names a worker and its
// jobs, or of sql/pause_kind.sql. It ignores what it cannot read.
func (b *Backend) handleControl(l *listener, text string) {
	at := strings.LastIndexByte(text, controlMark)
	if at < 0 {
		for _, s := range b.subscribersOf(l, func(*subscriber) bool { return true }) {
			s.tell(driver.Signal{Pauses: true})
		}
		return
	}
	worker := text[:at]
	var ids []int64
	for _, field := range strings.FieldsFunc(text[at+1:], func(c rune) bool { return c == ',' }) {
		if id, err := strconv.ParseInt(field, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	for _, s := range b.subscribersOf(l, func(s *subscriber) bool { return s.worker == worker }) {
		s.tell(driver.Signal{Cancels: true, IDs: ids})
	}
}
