package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// SetSchedules implements [driver.Scheduler] with sql/schedule_read.sql and sql/schedule_write.sql.
func (b *Backend) SetSchedules(ctx context.Context, db queue.DB, list ...queue.Schedule) error {
	if err := driver.CheckSchedules(b.options.MaxPayload, list...); err != nil {
		return fmt.Errorf("sqlite: set schedules: %w", err)
	}
	names, set := schedules.Set(list)
	_, err := b.changeSchedules(ctx, "set schedules", db, names, set)
	return err
}

// DeclareSchedules implements [driver.Scheduler].
func (b *Backend) DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error) {
	if err := d.Check(b.options.MaxPayload); err != nil {
		return 0, fmt.Errorf("sqlite: declare schedules: %w", err)
	}
	names, declare := schedules.Declare(d)
	return b.changeSchedules(ctx, "declare schedules", db, names, declare)
}

// DeleteSchedules implements [driver.Scheduler].
func (b *Backend) DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error) {
	if err := driver.CheckScheduleNames(names...); err != nil {
		return 0, fmt.Errorf("sqlite: delete schedules: %w", err)
	}
	names, remove := schedules.Delete(names)
	return b.changeSchedules(ctx, "delete schedules", db, names, remove)
}

// Schedules implements [driver.Scheduler]. A schedule whose job cannot be read has an empty Job.
func (b *Backend) Schedules(ctx context.Context) (all []queue.ScheduleRecord, err error) {
	var rows []sqlkit.ScheduleRow
	err = b.read(ctx, "schedules", func(db queue.DB) (err error) {
		rows, err = queryScheduleRows(ctx, db, b.sql["schedule_read"], nil)
		return err
	})
	return sqlkit.Records(rows), err
}

func queryScheduleRows(ctx context.Context, db queue.DB, query string, args ...any) ([]sqlkit.ScheduleRow, error) {
	return queryAll(ctx, db, func(rows *sql.Rows, r *sqlkit.ScheduleRow) error { return rows.Scan(r.Targets()...) }, query, args...)
}

// changeSchedules makes a change to the named schedules, in one transaction. It returns how many
// have a new version. It draws an id, so that sleeping workers of every process learn of the next
// tick.
func (b *Backend) changeSchedules(ctx context.Context, operation string, db queue.DB, names []string, f schedules.Change) (n int, err error) {
	var drawn requeued
	err = b.onHandle(ctx, operation, db, func(ctx context.Context, db queue.DB) error {
		n, drawn = 0, requeued{queues: []string{""}}
		if _, err := exec(ctx, db, b.sql["schedule_lock"]); err != nil {
			return err
		}
		read := func(names []string) (at time.Time, rows []sqlkit.ScheduleRow, err error) {
			rows, err = queryScheduleRows(ctx, db, b.sql["schedule_read"], stringList(names))
			return time.UnixMicro(now()).UTC(), rows, err
		}
		write := func(changes []sqlkit.ChangedSchedule) (map[string]bool, error) {
			return b.writeSchedules(ctx, db, changes)
		}
		n, err = sqlkit.ChangeSchedules(names, f, read, write)
		if err != nil || n == 0 {
			return err
		}
		return b.bumpID(ctx, db, &drawn)
	})
	if err != nil {
		return 0, err
	}
	b.ticks.Expire()
	if b.isOwn(db) {
		b.file.wakeBehind(b.options.Prefix, drawn.bumpedID)
	}
	return n, nil
}

// writeSchedules writes the changed schedules, and returns the names of those that had not changed
// meanwhile. They can change only if db is a connection without a transaction.
func (b *Backend) writeSchedules(ctx context.Context, db queue.DB, changes []sqlkit.ChangedSchedule) (written map[string]bool, err error) {
	written = make(map[string]bool, len(changes))
	for _, c := range changes {
		query, args := b.sql["schedule_write"], []any{
			c.Name, c.Spec, c.Zone, string(c.Job), c.Missed, c.Grace, c.Overlap, c.Paused, c.NextAt, c.Version, c.Digest, c.Release,
			c.Edited, c.Deleted, c.UpdatedAt, c.Was, c.WasNext,
		}
		if c.Gone {
			query, args = b.sql["schedule_delete"], []any{c.Name, c.Was}
		}
		result, err := exec(ctx, db, query, args...)
		if err != nil {
			return nil, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return nil, err
		}
		written[c.Name] = n > 0
	}
	return written, nil
}

// FireSchedules implements [driver.Scheduler]. It looks for the next tick with
// sql/schedule_next.sql, which writes nothing, and fires one batch of what is due in one
// transaction. A schedule that cannot be fired is left alone for a minute.
func (b *Backend) FireSchedules(ctx context.Context) (fired int, next time.Duration, err error) {
	look := func(later bool) (time.Duration, error) { return b.lookForTick(ctx, later) }
	fire := func() (int, bool, error) { return b.fireDue(ctx) }
	return b.ticks.Fire(func() error { return b.rewindSchedules(ctx) }, look, fire)
}

// rewindSchedules does what [schedules.Rewind] says.
func (b *Backend) rewindSchedules(ctx context.Context) error {
	all, err := b.Schedules(ctx)
	if err != nil {
		return err
	}
	names, rewind := schedules.Rewind(all)
	_, err = b.changeSchedules(ctx, "rewind schedules", nil, names, rewind)
	return err
}

// lookForTick returns how long until the next tick: 0 if it has come, less than 0 if there is none.
// With later it leaves out what has come.
func (b *Backend) lookForTick(ctx context.Context, later bool) (next time.Duration, err error) {
	var at sql.NullInt64
	question, laterThan := b.ticks.Ask(), int64(math.MinInt64)
	if later {
		laterThan = now()
	}
	err = b.read(ctx, "next tick", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&at) }, b.sql["schedule_next"], stringList(b.ticks.Left()), laterThan)
	})
	if err != nil {
		return 0, err
	}
	next = untilTick(at, now())
	b.ticks.NoteAsked(question, next)
	return next, nil
}

// untilTick returns how long from now, in microseconds since 1970, until at: 0 if it has passed, or
// -1 if it is NULL.
func untilTick(at sql.NullInt64, now int64) time.Duration {
	if !at.Valid {
		return -1
	}
	return sqlkit.Duration(max(at.Int64-now, 0))
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough rows")

// fireDue fires a batch of the schedules that are due. It returns how many, whether more may be
// due, and the errors of those that it could not fire. If it fails, the next batch is half as
// large.
func (b *Backend) fireDue(ctx context.Context) (fired int, hasMore bool, err error) {
	var batch *sqlkit.Batch
	err = b.write(ctx, "fire schedules", func(ctx context.Context, db queue.DB) error {
		batch = b.ticks.Batch(b.options.MaxPayload)
		err := b.fireBatch(ctx, db, batch)
		b.ticks.NoteBatch(err != nil && !errors.Is(err, errUndo))
		return err
	})
	if batch == nil {
		return 0, false, err
	}
	switch fired = len(batch.Ready); {
	case err == nil:
		b.wakeFor(nil, batch.Jobs())
	case fired == 0 || ctx.Err() != nil || sqliteerr.IsBusy(err) || sqliteerr.IsOfFile(err):
	case fired == 1:
		name := batch.Ready[0].Row.Name
		b.ticks.Leave(name, schedules.RetryTick)
		err = fmt.Errorf("schedule %q: %w", name, err)
	default:
		b.ticks.FireSingly(fired)
	}
	if err != nil {
		fired = 0
	}
	if batch.Broken != nil {
		err = errors.Join(fmt.Errorf("sqlite: fire schedules: %w", batch.Broken), err)
	}
	return fired, batch.HasMore, err
}

// fireBatch fills the batch with schedules that are due, enqueues their jobs and moves them on.
func (b *Backend) fireBatch(ctx context.Context, db queue.DB, batch *sqlkit.Batch) error {
	if _, err := exec(ctx, db, b.sql["schedule_lock"]); err != nil {
		return err
	}
	at := now()
	rows, err := b.queryDue(ctx, db, at, batch)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errUndo
	}
	batch.Fire(rows, time.UnixMicro(at).UTC())
	if jobs := batch.Jobs(); len(jobs) > 0 {
		if err := b.writeJobs(ctx, db, jobs); err != nil {
			return err
		}
	}
	for _, f := range batch.Ready {
		row, err := f.Fired()
		if err != nil {
			return err
		}
		_, err = exec(ctx, db, b.sql["schedule_fired"], row.Name, row.Version, f.Row.NextAt, row.NextAt, row.LastTick, row.LastJob, row.Skipped)
		if err != nil {
			return err
		}
	}
	return nil
}

// queryDue returns the schedules that are due at that time, up to the bounds of the batch.
func (b *Backend) queryDue(ctx context.Context, db queue.DB, at int64, batch *sqlkit.Batch) (due []sqlkit.ScheduleRow, err error) {
	left := batch.Bytes
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		var r sqlkit.ScheduleRow
		if err := rows.Scan(r.Targets()...); err != nil {
			return err
		}
		due = append(due, r)
		if left -= len(r.Job); left <= 0 {
			return errEnough
		}
		return nil
	}, b.sql["schedule_due"], stringList(b.ticks.Left()), at, batch.Schedules)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return due, err
}
