package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// scheduleChange is an operation that changes schedules, and the statements that read and write
// them.
type scheduleChange struct{ operation, read, write string }

// anyChange returns an operation that may change all of a schedule.
func (b *Backend) anyChange(operation string) scheduleChange {
	return scheduleChange{operation, b.sql["schedule_read"], b.sql["schedule_write"]}
}

// withoutJob changes sql/schedule_read.sql: of a schedule's job it returns the kind and the queue,
// and of the digest, whether there is one.
var withoutJob = strings.NewReplacer("coalesce(s.job::text, '')", "jsonb_build_object('kind', s.kind, 'queue', s.queue)::text",
	"coalesce(s.digest, '')", "CASE WHEN s.declared THEN 'unknown' ELSE '' END")

// SetSchedules implements [driver.Scheduler] with sql/schedule_read.sql and sql/schedule_write.sql.
func (b *Backend) SetSchedules(ctx context.Context, db queue.DB, list ...queue.Schedule) error {
	if err := driver.CheckSchedules(b.options.MaxPayload, list...); err != nil {
		return fmt.Errorf("postgres: set schedules: %w", err)
	}
	names, set := schedules.Set(list)
	_, err := b.changeSchedules(ctx, b.anyChange("set schedules"), db, names, set)
	return err
}

// DeclareSchedules implements [driver.Scheduler].
func (b *Backend) DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error) {
	if err := d.Check(b.options.MaxPayload); err != nil {
		return 0, fmt.Errorf("postgres: declare schedules: %w", err)
	}
	names, declare := schedules.Declare(d)
	return b.changeSchedules(ctx, b.anyChange("declare schedules"), db, names, declare)
}

// pauseSchedule needs no right to what schedules enqueue.
func (b *Backend) pauseSchedule(ctx context.Context, db queue.DB, name string, paused bool) (changed bool, err error) {
	names, pause := schedules.Pause(paused, name)
	change := scheduleChange{"pause", withoutJob.Replace(b.sql["schedule_read"]), b.sql["schedule_pause"]}
	n, err := b.changeSchedules(ctx, change, db, names, pause)
	return n > 0, err
}

// DeleteSchedules implements [driver.Scheduler].
func (b *Backend) DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error) {
	if err := driver.CheckScheduleNames(names...); err != nil {
		return 0, fmt.Errorf("postgres: delete schedules: %w", err)
	}
	names, remove := schedules.Delete(names)
	return b.changeSchedules(ctx, b.anyChange("delete schedules"), db, names, remove)
}

// Schedules implements [driver.Scheduler]. A schedule whose job cannot be read has an empty Job.
// For the observing role of docs/roles.sql the jobs have a Kind and a Queue only.
func (b *Backend) Schedules(ctx context.Context) (all []queue.ScheduleRecord, err error) {
	const operation = "schedules"
	isReadable, err := b.isTrue(ctx, operation, b.sql["readable_schedules"])
	if err != nil {
		return nil, err
	}
	query := b.sql["schedule_read"]
	if !isReadable {
		query = withoutJob.Replace(query)
	}
	_, rows, err := b.readSchedules(ctx, operation, nil, query, nil)
	return sqlkit.Records(rows), err
}

// readSchedules returns the server's clock and the schedules of that text array, or all if it is
// nil, ordered by name, with a query like sql/schedule_read.sql.
func (b *Backend) readSchedules(ctx context.Context, operation string, db queue.DB, query string, names any) (at time.Time, all []sqlkit.ScheduleRow, err error) {
	err = b.run(ctx, operation, db, func(db queue.DB) error {
		at, all, err = b.queryScheduleRows(ctx, db, query, names)
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
func (b *Backend) changeSchedules(ctx context.Context, c scheduleChange, db queue.DB, names []string, f schedules.Change) (n int, err error) {
	isNamed := false // a statement's error names the operation
	read := func(names []string) (at time.Time, rows []sqlkit.ScheduleRow, err error) {
		at, rows, err = b.readSchedules(ctx, c.operation, db, c.read, textArray(names))
		isNamed = err != nil
		return at, rows, err
	}
	write := func(changes []sqlkit.ChangedSchedule) (written map[string]bool, err error) {
		written, err = b.writeSchedules(ctx, c, db, changes)
		isNamed = err != nil
		return written, err
	}
	if n, err = sqlkit.ChangeSchedules(names, f, read, write); isNamed {
		return n, err
	}
	return n, sqlkit.Wrap(ctx, "postgres", c.operation, err)
}

// writeSchedules runs a statement like sql/schedule_write.sql, and returns the names of the
// schedules that it has written.
func (b *Backend) writeSchedules(ctx context.Context, c scheduleChange, db queue.DB, changes []sqlkit.ChangedSchedule) (written map[string]bool, err error) {
	text, err := json.Marshal(changes)
	if err != nil {
		return nil, fmt.Errorf("postgres: %s: %w", c.operation, err)
	}
	err = b.run(ctx, c.operation, db, func(db queue.DB) error {
		written = make(map[string]bool, len(changes))
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var name string
			var woken int64
			err := rows.Scan(&name, &woken)
			written[name] = true
			return err
		}, c.write, string(text), !b.options.Silent)
	})
	if kind, _ := handle.Of(db); err == nil && kind != handle.Tx {
		b.ticks.Expire()
	}
	return written, err
}
