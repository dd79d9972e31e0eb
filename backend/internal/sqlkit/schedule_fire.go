package sqlkit

import (
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/queue"
)

// Firing is a schedule whose tick has come.
type Firing struct {
	Row   ScheduleRow
	Jobs  []*queue.Job // the jobs to enqueue
	state *schedules.State
	next  time.Time // the tick that follows
	// warning says that the tick is from other time zone data.
	warning error
}

// fire returns the jobs of a row whose tick has come, and the tick that follows.
func (r ScheduleRow) fire(at time.Time, maxPayload int) (f Firing, err error) {
	f.Row = r
	if f.state, err = r.State(); err != nil {
		return f, err
	}
	if f.Jobs, f.next, err = f.state.Fire(f.state.Next, at); err != nil {
		return f, err
	}
	if err := schedules.CheckJobs(f.Jobs, maxPayload); err != nil {
		return f, fmt.Errorf("schedule %q: %w", r.Name, err)
	}
	f.warning = f.state.CheckTick(f.state.Next)
	return f, nil
}

// Fired returns the row of the schedule after its jobs were enqueued.
func (f Firing) Fired() (ScheduleRow, error) { return NewScheduleRow(f.state.Fired(f.Jobs, f.next)) }

// Records returns the schedules of rows, without those that were deleted. A schedule whose job
// cannot be read has an empty Job.
func Records(rows []ScheduleRow) (all []queue.ScheduleRecord) {
	for _, r := range rows {
		if !r.Deleted {
			s, _ := r.State()
			all = append(all, s.ScheduleRecord)
		}
	}
	return all
}

// Fire fires one batch if a tick has come, or if the next tick is not known. If the server's clock
// was set back, it first calls rewind, which does what [schedules.Rewind] says. look returns how
// long until the next tick: 0 if it has come, less than 0 for none; with later it leaves out those
// that have come. fire fires a batch, and reports whether more may be due. Fire returns what
// [driver.Scheduler] says. While others have locked what is due, its answers are some time
// apart. After Deny, its answers have that error until it has fired something, or there are no
// schedules: until then this process does not know whether it has the right.
func (t *Ticks) Fire(rewind func() error, look func(later bool) (time.Duration, error), fire func() (int, bool, error)) (fired int, next time.Duration, err error) {
	isDenied, denial := t.denied()
	if isDenied {
		return 0, -1, denial
	}
	if t.takeSetBack() {
		if err := rewind(); err != nil {
			t.NoteJump(-1)
			return 0, 0, err
		}
	}
	fired, next, err = t.fireDue(look, fire)
	switch {
	case fired > 0 || err == nil && next < 0:
		t.allow()
	case err == nil:
		err = denial
	}
	return fired, next, err
}

// fireDue does the work of Fire for a process that is not denied.
func (t *Ticks) fireDue(look func(later bool) (time.Duration, error), fire func() (int, bool, error)) (fired int, next time.Duration, err error) {
	if next, ok := t.UntilNext(); ok {
		return 0, next, nil
	}
	if next, err = look(false); err != nil || next != 0 {
		return 0, next, err
	}
	fired, hasMore, err := fire()
	if err != nil {
		return fired, 0, err
	}
	if fired > 0 {
		t.noteFree()
	}
	if t.Expire(); hasMore {
		return fired, 0, nil
	}
	if next, err = look(false); err != nil || next != 0 {
		return fired, next, err
	}
	if next, err = look(true); err != nil {
		return fired, 0, err
	}
	return fired, t.noteBusy(next), nil
}
