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
	names, pause := schedules.Pause(paused, names)
	return b.changeSchedules(ctx, "pause schedules", db, names, pause)
}

// DeleteSchedules implements [queue.Scheduler].
func (b *Backend) DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error) {
	names, remove := schedules.Delete(names)
	return b.changeSchedules(ctx, "delete schedules", db, names, remove)
}

// Schedules implements [queue.Scheduler]. A schedule whose job cannot be read has an empty Job.
func (b *Backend) Schedules(ctx context.Context) (all []queue.ScheduleRecord, err error) {
	_, rows, err := b.readSchedules(ctx, "schedules", nil, nil)
	for _, r := range rows {
		if !r.Deleted {
			s, _ := r.State()
			all = append(all, s.ScheduleRecord)
		}
	}
	return all, err
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

// changedSchedule is an element of the first parameter of sql/schedule_write.sql.
type changedSchedule struct {
	sqlkit.ScheduleRow
	Was     int64 `json:"was"`
	WasNext int64 `json:"was_next"`
	Gone    bool  `json:"gone"`
}

// changeSchedules makes a change to the named schedules. It reads them, computes their next ticks
// in Go, and writes those that have not changed meanwhile; for others it begins anew. It returns how
// many have a new version.
func (b *Backend) changeSchedules(ctx context.Context, operation string, db queue.DB, names []string, f schedules.Change) (n int, err error) {
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	for round := 1; len(names) > 0; round++ {
		if round > retryLimit {
			return n, fmt.Errorf("postgres: %s: %d schedules keep changing", operation, len(names))
		}
		at, rows, err := b.readSchedules(ctx, operation, db, textArray(names))
		if err != nil {
			return n, err
		}
		changes, versions, err := changesOf(names, index, rows, at, f)
		if err != nil || len(changes) == 0 {
			return n, err
		}
		written, err := b.writeSchedules(ctx, operation, db, changes)
		if err != nil {
			return n, err
		}
		names = names[:0:0]
		for _, c := range changes {
			switch {
			case !written[c.Name]:
				names = append(names, c.Name)
			case versions[c.Name] != c.Version:
				n++
			}
		}
	}
	return n, nil
}

// changesOf returns what a change makes of the named schedules, and the versions that they had.
func changesOf(names []string, index map[string]int, rows []sqlkit.ScheduleRow, at time.Time, f schedules.Change) (changes []changedSchedule, versions map[string]int64, err error) {
	before := make(map[string]sqlkit.ScheduleRow, len(rows))
	versions = make(map[string]int64, len(rows))
	for _, r := range rows {
		before[r.Name], versions[r.Name] = r, r.Version
	}
	for _, name := range names {
		var was *schedules.State
		r, ok := before[name]
		if ok {
			was, _ = r.State() // a job that cannot be read is replaced, or stays what it is
		}
		next := f(index[name], was, at)
		if next == nil {
			continue
		}
		row, err := sqlkit.NewScheduleRow(next)
		if err != nil {
			return nil, nil, err
		}
		changes = append(changes, changedSchedule{ScheduleRow: row, Was: r.Version, WasNext: r.NextAt, Gone: next.IsGone()})
	}
	return changes, versions, nil
}

// writeSchedules runs sql/schedule_write.sql, and returns the names of the schedules that it has
// written.
func (b *Backend) writeSchedules(ctx context.Context, operation string, db queue.DB, changes []changedSchedule) (written map[string]bool, err error) {
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
		b.ticks.expire()
	}
	return written, err
}
