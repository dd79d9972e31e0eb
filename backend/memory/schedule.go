package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// schedule is a stored schedule. Like a row, an open transaction that changes it locks it.
type schedule struct {
	name      string
	committed *storedSchedule // nil: there is none
	tx        *memTx          // the open transaction that has locked it, or nil
	draft     *storedSchedule // what tx has made of it
	retryAt   time.Time       // when to fire it again after an error
}

// storedSchedule is a state of a schedule. It is replaced, never changed.
type storedSchedule struct {
	queue.ScheduleRecord
	digest  string // of the declared text; "" if it is not declared
	deleted bool   // by a person, and still declared by code
}

// visibleTo returns the schedule as tx sees it: nil if there is none.
func (s *schedule) visibleTo(tx *memTx) *storedSchedule {
	if tx != nil && s.tx == tx {
		return s.draft
	}
	return s.committed
}

// change calls f for each of the named schedules, with its state or a new one, and stores the state
// that f returns, if it is not nil. It waits for transactions that have locked one of them. It
// returns how many were stored.
func (q *Queue) change(ctx context.Context, operation string, db queue.DB, names []string, f func(i int, was *storedSchedule, at time.Time) *storedSchedule) (n int, err error) {
	tx, err := txOf(db)
	if err != nil {
		return 0, failed(operation, err)
	}
	err = q.do(ctx, operation, tx, func() *memTx {
		for _, name := range names {
			if s := q.schedules[name]; s != nil && s.tx != nil && s.tx != tx {
				return s.tx
			}
		}
		n = 0
		at := now()
		for i, name := range names {
			s := cmp.Or(q.schedules[name], &schedule{name: name})
			if next := f(i, s.visibleTo(tx), at); next != nil {
				q.store(tx, s, next)
				n++
			}
		}
		return nil
	})
	return n, err
}

// store changes s to next: at once, or when tx commits.
func (q *Queue) store(tx *memTx, s *schedule, next *storedSchedule) {
	q.schedules[s.name] = s
	if tx == nil {
		s.committed, s.retryAt = next, time.Time{}
		q.forgetSchedule(s)
		return
	}
	if s.tx == nil {
		s.tx = tx
		tx.schedules = append(tx.schedules, s)
	}
	s.draft = next
}

// endSchedule unlocks s when its transaction ends.
func (q *Queue) endSchedule(s *schedule, commit bool) {
	next := s.committed
	if commit {
		next = s.draft
	}
	s.tx, s.draft = nil, nil
	q.schedules[s.name] = s
	q.store(nil, s, next)
}

// forgetSchedule drops a schedule that there is no more, and wakes the workers of its queue: they
// ask for the next tick before they sleep again.
func (q *Queue) forgetSchedule(s *schedule) {
	if s.committed == nil || s.committed.deleted && s.committed.digest == "" {
		delete(q.schedules, s.name)
		return
	}
	q.wake(queueOf(s.committed.Job))
}

// SetSchedules implements [queue.Scheduler].
func (q *Queue) SetSchedules(ctx context.Context, db queue.DB, schedules ...queue.Schedule) error {
	if err := queue.CheckSchedules(q.opts.MaxPayload, schedules...); err != nil {
		return err
	}
	_, err := q.change(ctx, "set schedules", db, namesOf(schedules), func(i int, was *storedSchedule, at time.Time) *storedSchedule {
		next := rescheduled(was, schedules[i], at)
		next.Edited = next.Declared
		return next
	})
	return err
}

// rescheduled returns was with the fields of s, and the tick that follows at.
func rescheduled(was *storedSchedule, s queue.Schedule, at time.Time) *storedSchedule {
	var next storedSchedule
	if was != nil {
		next = *was
	}
	next.Schedule = s.Clone()
	next.Missed = cmp.Or(s.Missed, queue.MissedLast)
	next.deleted = false
	return resumed(next, at)
}

// resumed returns next, changed at that time, with the tick that follows it. There is none if it is
// paused.
func resumed(next storedSchedule, at time.Time) *storedSchedule {
	next.Version++
	next.UpdatedAt, next.Next = at, time.Time{}
	if !next.Paused && !next.deleted {
		next.Next, _ = next.NextTick(at, next.LastTick) // CheckSchedules has checked it
	}
	return &next
}

func namesOf(schedules []queue.Schedule) (names []string) {
	for _, s := range schedules {
		names = append(names, s.Name)
	}
	return names
}

// DeclareSchedules implements [queue.ScheduleRunner].
func (q *Queue) DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error) {
	if err := d.Check(q.opts.MaxPayload); err != nil {
		return 0, err
	}
	changed := 0
	_, err = q.change(ctx, "declare schedules", db, namesOf(d.Schedules), func(i int, was *storedSchedule, at time.Time) *storedSchedule {
		if i == 0 {
			changed = 0 // change begins anew after it has waited
		}
		s := d.Schedules[i]
		release, digest := d.Order(), s.Digest()
		if was != nil && (was.Release > release || was.Release == release && was.digest == digest) {
			return nil
		}
		if was != nil && was.digest == digest {
			next := *was
			next.Release = release
			return &next
		}
		changed++
		keepsPause := was != nil && was.Edited && was.Paused
		s.Paused = s.Paused || keepsPause
		next := rescheduled(was, s, at)
		next.Declared, next.Release, next.digest, next.Edited = true, release, digest, keepsPause
		return next
	})
	return changed, err
}

// PauseSchedules implements [queue.Scheduler].
func (q *Queue) PauseSchedules(ctx context.Context, db queue.DB, paused bool, names ...string) (n int, err error) {
	return q.change(ctx, "pause schedules", db, distinct(names), func(_ int, was *storedSchedule, at time.Time) *storedSchedule {
		if was == nil || was.deleted || was.Paused == paused {
			return nil
		}
		next := *was
		next.Paused, next.Edited = paused, was.Declared
		return resumed(next, at)
	})
}

// DeleteSchedules implements [queue.Scheduler].
func (q *Queue) DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error) {
	return q.change(ctx, "delete schedules", db, distinct(names), func(_ int, was *storedSchedule, at time.Time) *storedSchedule {
		if was == nil || was.deleted {
			return nil
		}
		next := *was
		next.deleted = true
		return resumed(next, at)
	})
}

// distinct returns the names in order, each once.
func distinct(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// Schedules implements [queue.Scheduler].
func (q *Queue) Schedules(ctx context.Context) (all []queue.ScheduleRecord, err error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("schedules", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.schedules {
		if c := s.committed; c != nil && !c.deleted {
			r := c.ScheduleRecord
			r.Schedule = r.Clone()
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b queue.ScheduleRecord) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// retryTick is how long a schedule is left alone that could not be fired.
const retryTick = time.Minute

// FireSchedules implements [queue.ScheduleRunner]. It leaves a schedule to the next call whose row,
// or whose job's key, an open transaction has locked.
func (q *Queue) FireSchedules(ctx context.Context) (fired int, next time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, -1, failed("fire schedules", err)
	}
	fired, next, err = q.fireSchedules()
	if fired > 0 {
		q.runInline(ctx)
	}
	return fired, next, err
}

// busyTick is how long until a tick is looked at again that a transaction has locked.
const busyTick = 10 * time.Millisecond

func (q *Queue) fireSchedules() (fired int, next time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	next = -1
	for _, s := range q.schedules {
		if s.committed == nil || s.committed.Next.IsZero() || s.retryAt.After(at) {
			continue
		}
		due := s.committed.Next.Sub(at)
		if due <= 0 {
			isBusy, failed := q.fire(s, at)
			switch {
			case failed != nil:
				s.retryAt = at.Add(retryTick)
				err = errors.Join(err, failed)
				continue
			case isBusy:
				due = busyTick
			default:
				fired++
				if s.committed.Next.IsZero() {
					continue
				}
				due = s.committed.Next.Sub(at)
			}
		}
		if next < 0 || due < next {
			next = due
		}
	}
	return fired, next, err
}

// fire enqueues the jobs of a due schedule. isBusy reports that an open transaction has locked it.
func (q *Queue) fire(s *schedule, at time.Time) (isBusy bool, err error) {
	if s.tx != nil {
		return true, nil
	}
	jobs, following, err := s.committed.Fire(s.committed.Next, at)
	if err != nil {
		return false, err
	}
	for _, j := range jobs {
		if err := j.Check(q.opts.MaxPayload); err != nil {
			return false, err
		}
		if _, busy := q.holder(nil, keyOf(j)); busy != nil {
			return true, nil
		}
	}
	next := *s.committed
	next.Next = following
	for _, j := range jobs {
		q.insert(nil, nil, j, at)
		_, next.LastTick, _ = queue.TickOf(j)
		next.LastJob = j.ID
		if j.Duplicate {
			next.Skipped++
		}
	}
	s.committed = &next
	return false, nil
}
