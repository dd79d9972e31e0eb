package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// firing is a tick whose jobs are to be enqueued, or several missed ticks of a schedule.
type firing struct {
	name   string
	number int64 // higher than that of each earlier firing
	jobs   []*queue.Job
	err    error // why some jobs are not known to be enqueued
	isLost bool  // the note of it cannot be read
}

// errNoteLost is the error of a firing whose note was damaged, or is lost: the master that had it
// died while the slot moved. The schedule goes on.
var errNoteLost = errors.New("the note of a firing cannot be read: the job of its last tick may be missing")

// FireSchedules implements [driver.Scheduler]. It fires a batch of the schedules that are due,
// and takes over firings that others have not ended within a second. See lua/schedule.lua.
func (b *Backend) FireSchedules(ctx context.Context) (fired int, next time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, -1, failed("fire schedules", err)
	}
	look := func(later bool) (time.Duration, error) { return b.untilTick(ctx, later) }
	fire := func() (int, bool, error) { return b.fireDue(ctx) }
	if fired, next, err = b.ticks.Fire(func() error { return b.rewindSchedules(ctx) }, look, fire); err != nil {
		return fired, next, failed("fire schedules", err)
	}
	return fired, next, nil
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

// untilTick returns how long until the next tick: 0 if it has come, less than 0 if there is none.
// With later it leaves out what has come.
func (b *Backend) untilTick(ctx context.Context, later bool) (time.Duration, error) {
	question := b.ticks.Ask()
	m, err := b.call(ctx, "until_tick", common, append([]string{bit(later)}, b.ticks.Left()...)...)
	if err != nil {
		return 0, err
	}
	us, err := m.AsInt64()
	if err != nil {
		return 0, err
	}
	next := time.Duration(us) * time.Microsecond
	b.ticks.NoteAsked(question, next)
	return next, nil
}

// fireDue fires a batch. It returns how many schedules it has fired, whether more may be due, and
// the errors of those that it could not fire.
func (b *Backend) fireDue(ctx context.Context) (fired int, hasMore bool, err error) {
	batch := b.ticks.Batch(b.opts.MaxPayload)
	m, err := b.call(ctx, "due_schedules", common, append([]string{strconv.Itoa(batch.Schedules), strconv.Itoa(batch.Bytes)}, b.ticks.Left()...)...)
	if err != nil {
		return 0, false, err
	}
	at, rows, firings, err := b.readDue(m)
	if err != nil {
		return 0, false, err
	}
	batch.Fire(rows, at)
	begun, err := b.beginFirings(ctx, at, batch.Ready)
	if err != nil {
		return 0, false, errors.Join(err, batch.Broken)
	}
	firings = append(firings, begun...)
	err = b.enqueueFirings(ctx, firings)
	return len(begun), batch.HasMore, errors.Join(err, b.endFirings(ctx, firings), batch.Broken)
}

// readDue reads the answer of lua/schedule.lua's due_schedules.
func (b *Backend) readDue(m rueidis.RedisMessage) (at time.Time, rows []sqlkit.ScheduleRow, stale []*firing, err error) {
	in := readerOf(&m)
	at = in.time()
	due, begun := in.next(), in.next()
	if in.err != nil {
		return at, nil, nil, in.err
	}
	if err := readEach(due, func(in *reader) { rows = append(rows, readSchedule(in)) }); err != nil {
		return at, nil, nil, err
	}
	err = readEach(begun, func(in *reader) { stale = append(stale, b.takeOver(in)) })
	return at, rows, stale, err
}

// takeOver returns a firing that another process has begun, with the same jobs. A note from before
// November 28, 2026 has no ticks: they are computed again then.
func (b *Backend) takeOver(in *reader) *firing {
	f := &firing{name: in.text(), number: in.int()}
	at, n := in.time(), int(in.int())
	var row sqlkit.ScheduleRow
	tick, text := in.int(), in.text()
	if err := json.Unmarshal([]byte(text), &row); f.number == 0 || err != nil {
		f.isLost, f.err = true, errNoteLost
		return f
	}
	var ticks []int64
	if len(in.fields) > 0 {
		var err error
		if ticks, err = parseTicks(in.text()); err != nil {
			f.isLost, f.err = true, err
			return f
		}
	}
	if len(ticks) == 0 {
		var jobs []*queue.Job
		jobs, f.err = b.jobsOf(row, tick, at)
		f.jobs = jobs[:min(n, len(jobs))]
		return f
	}
	for _, tick := range ticks {
		jobs, err := b.jobsOf(row, tick, timeOf(tick))
		f.jobs, f.err = append(f.jobs, jobs...), errors.Join(f.err, err)
	}
	return f
}

// jobsOf returns the jobs of a schedule whose next tick is that one, at a time.
func (b *Backend) jobsOf(row sqlkit.ScheduleRow, tick int64, at time.Time) ([]*queue.Job, error) {
	row.NextAt = tick
	batch := b.ticks.Batch(b.opts.MaxPayload)
	if batch.Fire([]sqlkit.ScheduleRow{row}, at); len(batch.Ready) == 0 {
		return nil, batch.Broken
	}
	return batch.Ready[0].Jobs, nil
}

// ticksText returns the ticks of jobs, as the note of their firing has them.
func ticksText(jobs []*queue.Job) string {
	all := make([]string, len(jobs))
	for i, j := range jobs {
		_, tick, _ := queue.TickOf(j)
		all[i] = digits(tick.UnixMicro())
	}
	return strings.Join(all, ",")
}

// parseTicks returns the ticks in a text of ticksText.
func parseTicks(text string) (ticks []int64, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		tick, err := strconv.ParseInt(one, 10, 64)
		if err != nil {
			return nil, errNoteLost
		}
		ticks = append(ticks, tick)
	}
	return ticks, nil
}

// beginFirings moves schedules to their next ticks. It returns those that nobody else has fired.
func (b *Backend) beginFirings(ctx context.Context, at time.Time, ready []sqlkit.Firing) (begun []*firing, err error) {
	if len(ready) == 0 {
		return nil, nil
	}
	var args []string
	for _, f := range ready {
		after, err := f.Fired()
		if err != nil {
			return nil, err
		}
		text, err := scheduleText(after)
		if err != nil {
			return nil, err
		}
		args = append(args, after.Name, digits(after.Version), digits(f.Row.NextAt), digits(after.NextAt), text,
			strconv.Itoa(len(f.Jobs)), digits(at.UnixMicro()), ticksText(f.Jobs))
	}
	m, err := b.call(ctx, "begin_firings", common, args...)
	if err != nil {
		return nil, err
	}
	numbers, err := m.AsIntSlice()
	if err != nil {
		return nil, err
	}
	for i, number := range numbers {
		if number > 0 {
			begun = append(begun, &firing{name: ready[i].Row.Name, number: number, jobs: ready[i].Jobs})
		}
	}
	return begun, nil
}

// enqueueFirings enqueues the jobs of firings, each firing's in one call a partition. It returns
// the errors of those that have failed.
func (b *Backend) enqueueFirings(ctx context.Context, firings []*firing) (errs error) {
	var of []*firing
	var batches []batch
	var partitions []int
	var args [][]string
	for _, f := range firings {
		for _, batch := range b.placed(f.jobs) {
			a, err := fireArgs(f, batch.jobs)
			if f.err = errors.Join(f.err, err); err == nil {
				of, batches, partitions, args = append(of, f), append(batches, batch), append(partitions, batch.partition), append(args, a)
			}
		}
	}
	if len(of) > 0 {
		for i, r := range b.callAll(ctx, "fire", partitions, args) {
			of[i].err = errors.Join(of[i].err, b.noteWritten(batches[i], r))
		}
	}
	for _, f := range firings {
		if f.err != nil {
			errs = errors.Join(errs, fmt.Errorf("schedule %q: %w", f.name, f.err))
		}
	}
	return errs
}

// fireArgs returns the arguments of lua/schedule.lua's fire for jobs of one partition.
func fireArgs(f *firing, jobs []*queue.Job) ([]string, error) {
	args := []string{f.name}
	for _, j := range jobs {
		a, err := enqueueArgs(j)
		if err != nil {
			return nil, err
		}
		_, tick, _ := queue.TickOf(j)
		args = append(append(args, digits(tick.UnixMicro())), a...)
	}
	return args, nil
}

// endFirings removes the notes of the firings whose jobs are enqueued, and those that are lost.
func (b *Backend) endFirings(ctx context.Context, firings []*firing) error {
	var args []string
	for _, f := range firings {
		if f.isLost {
			args = append(args, f.name, digits(f.number), "0", "0")
			continue
		}
		if f.err != nil || len(f.jobs) == 0 {
			continue
		}
		last, skipped := max(f.jobs[len(f.jobs)-1].ID, 0), 0 // below 0: an old tick, whose job is forgotten
		for _, j := range f.jobs {
			if j.Duplicate {
				skipped++
			}
		}
		args = append(args, f.name, digits(f.number), digits(last), strconv.Itoa(skipped))
	}
	if len(args) == 0 {
		return nil
	}
	_, err := b.call(ctx, "end_firings", common, args...)
	return err
}
