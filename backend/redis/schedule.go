package redis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// SetSchedules implements [driver.Scheduler]. db must be nil.
func (b *Backend) SetSchedules(ctx context.Context, db queue.DB, list ...queue.Schedule) error {
	if err := b.checkSchedules(driver.CheckSchedules(b.opts.MaxPayload, list...), list); err != nil {
		return failed("set schedules", err)
	}
	names, set := schedules.Set(list)
	_, err := b.changeSchedules(ctx, "set schedules", db, names, set)
	return err
}

// DeclareSchedules implements [driver.Scheduler]. db must be nil.
func (b *Backend) DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error) {
	if err := b.checkSchedules(d.Check(b.opts.MaxPayload), d.Schedules); err != nil {
		return 0, failed("declare schedules", err)
	}
	names, declare := schedules.Declare(d)
	return b.changeSchedules(ctx, "declare schedules", db, names, declare)
}

// checkSchedules returns err, or an error for the first schedule whose job Enqueue would refuse:
// the job of a schedule has a Key.
func (b *Backend) checkSchedules(err error, list []queue.Schedule) error {
	if err != nil {
		return err
	}
	for _, s := range list {
		if b.opts.Spread > 1 && s.Job.Ordered {
			return &queue.InvalidError{Field: "Schedule.Job", Problem: fmt.Sprintf("of %q: ordered: with a Spread above 1 an ordered job has no key", s.Name)}
		}
	}
	return nil
}

// DeleteSchedules implements [driver.Scheduler]. db must be nil.
func (b *Backend) DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error) {
	if err := driver.CheckScheduleNames(names...); err != nil {
		return 0, failed("delete schedules", err)
	}
	names, remove := schedules.Delete(names)
	return b.changeSchedules(ctx, "delete schedules", db, names, remove)
}

// Schedules implements [driver.Scheduler].
func (b *Backend) Schedules(ctx context.Context) ([]queue.ScheduleRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("schedules", err)
	}
	_, rows, err := b.readSchedules(ctx, nil)
	if err != nil {
		return nil, failed("schedules", err)
	}
	return sqlkit.Records(rows), nil
}

// readSchedules returns the named schedules, or all if none is named, ordered by name, and the
// server's time.
func (b *Backend) readSchedules(ctx context.Context, names []string) (at time.Time, rows []sqlkit.ScheduleRow, err error) {
	found := make(map[string]sqlkit.ScheduleRow)
	now, err := b.pages(ctx, "schedules", common, "0", names, func(_ int64, in *reader) {
		row := readSchedule(in)
		found[row.Name] = row
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		rows = append(rows, found[name])
	}
	return timeOf(now), rows, err
}

// readSchedule reads what lua/schedule.lua's rowOf answers.
func readSchedule(in *reader) (row sqlkit.ScheduleRow) {
	name := in.text()
	row.Broken = json.Unmarshal([]byte(in.text()), &row)
	row.Name, row.Version, row.NextAt, row.LastJob, row.Skipped = name, in.int(), in.int(), in.int(), in.int()
	return row
}

// changeSchedules makes a change to the named schedules. It returns how many have a new version.
func (b *Backend) changeSchedules(ctx context.Context, operation string, db queue.DB, names []string, f schedules.Change) (n int, err error) {
	if err := cmp.Or(refuse(db), ctx.Err()); err != nil {
		return 0, failed(operation, err)
	}
	read := func(names []string) (time.Time, []sqlkit.ScheduleRow, error) { return b.readSchedules(ctx, names) }
	write := func(changes []sqlkit.ChangedSchedule) (map[string]bool, error) { return b.writeSchedules(ctx, changes) }
	n, err = sqlkit.ChangeSchedules(names, f, read, write)
	b.ticks.Expire()
	if err != nil {
		return n, failed(operation, err)
	}
	return n, nil
}

// writeSchedules stores the schedules that are as they were read, and returns their names.
func (b *Backend) writeSchedules(ctx context.Context, changes []sqlkit.ChangedSchedule) (written map[string]bool, err error) {
	var args []string
	for _, c := range changes {
		text := ""
		if !c.Gone {
			if text, err = scheduleText(c.ScheduleRow); err != nil {
				return nil, err
			}
		}
		args = append(args, c.Name, digits(c.Was), digits(c.WasNext), digits(c.Version), digits(c.NextAt), text)
	}
	m, err := b.call(ctx, "change_schedules", common, args...)
	if err != nil {
		return nil, err
	}
	answers, err := m.AsIntSlice()
	if err != nil {
		return nil, err
	}
	written = make(map[string]bool, len(changes))
	for i, c := range changes {
		written[c.Name] = i < len(answers) && answers[i] == 1
	}
	return written, nil
}

// scheduleText returns the stored form of a schedule. Its payload stays as it is.
func scheduleText(row sqlkit.ScheduleRow) (string, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(row)
	return text.String(), err
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }
