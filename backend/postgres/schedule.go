package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/internal/schedules"
	"github.com/errandhq/errand/queue"
)

// SetSchedules implements [queue.Scheduler] with sql/schedule_read.sql and sql/schedule_write.sql.
func (b *Backend) SetSchedules(ctx context.Context, db queue.DB, list ...queue.Schedule) error {
	if err := queue.CheckSchedules(b.options.MaxPayload, list...); err != nil {
		return fmt.Errorf("postgres: set schedules: %w", err)
	}
	names, set := schedules.Set(list)
	_, err := b.changeSchedules(ctx, "set schedules", db, names, set)
	return err
}

// DeclareSchedules implements [queue.ScheduleRunner].
func (b *Backend) DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error) {
	if err := d.Check(b.options.MaxPayload); err != nil {
		return 0, fmt.Errorf("postgres: declare schedules: %w", err)
	}
	names, declare := schedules.Declare(d)
	return b.changeSchedules(ctx, "declare schedules", db, names, declare)
}

// PauseSchedules implements [queue.Scheduler].
func (b *Backend) PauseSchedules(ctx context.Context, db queue.DB, paused bool, names ...string) (n int, err error) {
	if err := queue.CheckScheduleNames(names...); err != nil {
		return 0, fmt.Errorf("postgres: pause schedules: %w", err)
	}
	names, pause := schedules.Pause(paused, names)
	return b.changeSchedules(ctx, "pause schedules", db, names, pause)
}

// DeleteSchedules implements [queue.Scheduler].
func (b *Backend) DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error) {
	if err := queue.CheckScheduleNames(names...); err != nil {
		return 0, fmt.Errorf("postgres: delete schedules: %w", err)
	}
	names, remove := schedules.Delete(names)
	return b.changeSchedules(ctx, "delete schedules", db, names, remove)
}

// Schedules implements [queue.Scheduler]. A schedule whose job cannot be read has an empty Job.
func (b *Backend) Schedules(ctx context.Context) (all []queue.ScheduleRecord, err error) {
	_, rows, err := b.readSchedules(ctx, "schedules", nil, nil)
	return sqlkit.Records(rows), err
}

// readSchedules returns the server's clock and the schedules of that text array, or all if it is
// nil, ordered by name.
func (b *Backend) readSchedules(ctx context.Context, operation string, db queue.DB, names any) (at time.Time, all []sqlkit.ScheduleRow, err error) {
	err = b.run(ctx, operation, db, func(db queue.DB) error {
		at, all, err = b.queryScheduleRows(ctx, db, b.sql.scheduleRead, names)
		return err
	})
	return at, all, err
}

// queryScheduleRows runs a query that returns the server's clock before each schedule.
func (b *Backend) queryScheduleRows(ctx context.Context, db queue.DB, query string, args ...any) (at time.Time, all []sqlkit.ScheduleRow, err error) {
	err = sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
		var clock int64
		var r sqlkit.ScheduleRow
		err := rows.Scan(append([]any{&clock}, r.Targets()...)...)
		at = time.UnixMicro(clock).UTC()
		if r.Name != "" {
			all = append(all, r)
		}
		return err
	}, query, args...)
	return at, all, err
}

// changeSchedules makes a change to the named schedules. It returns how many have a new version.
func (b *Backend) changeSchedules(ctx context.Context, operation string, db queue.DB, names []string, f schedules.Change) (n int, err error) {
	isNamed := false // a statement's error names the operation
	read := func(names []string) (at time.Time, rows []sqlkit.ScheduleRow, err error) {
		at, rows, err = b.readSchedules(ctx, operation, db, textArray(names))
		isNamed = err != nil
		return at, rows, err
	}
	write := func(changes []sqlkit.ChangedSchedule) (written map[string]bool, err error) {
		written, err = b.writeSchedules(ctx, operation, db, changes)
		isNamed = err != nil
		return written, err
	}
	if n, err = sqlkit.ChangeSchedules(names, f, read, write); isNamed {
		return n, err
	}
	return n, sqlkit.Wrap(ctx, "postgres", operation, err)
}

// writeSchedules runs sql/schedule_write.sql, and returns the names of the schedules that it has
// written.
func (b *Backend) writeSchedules(ctx context.Context, operation string, db queue.DB, changes []sqlkit.ChangedSchedule) (written map[string]bool, err error) {
	text, err := json.Marshal(changes)
	if err != nil {
		return nil, fmt.Errorf("postgres: %s: %w", operation, err)
	}
	err = b.run(ctx, operation, db, func(db queue.DB) error {
		written = make(map[string]bool, len(changes))
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var name string
			var woken int64
			err := rows.Scan(&name, &woken)
			written[name] = true
			return err
		}, b.sql.scheduleWrite, string(text), !b.options.Silent)
	})
	if kind, _ := handle.Of(db); err == nil && kind != handle.Tx {
		b.ticks.Expire()
	}
	return written, err
}
