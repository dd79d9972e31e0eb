package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// schedule is a stored schedule. Like a row, an open transaction that changes it locks it.
type schedule struct {
	name      string
	committed *schedules.State // nil: there is none; a state is replaced, never changed
	tx        *memTx           // the open transaction that has locked it, or nil
	draft     *schedules.State // what tx has made of it
	retryAt   time.Time        // when to fire it again after an error
}

// visibleTo returns the schedule as tx sees it: nil if there is none.
func (s *schedule) visibleTo(tx *memTx) *schedules.State {
	if tx != nil && s.tx == tx {
		return s.draft
	}
	return s.committed
}

// change makes a change to the named schedules. It waits for transactions that have locked one of
// them. It returns how many have a new Version.
func (q *Queue) change(ctx context.Context, operation string, db queue.DB, names []string, f schedules.Change) (n int, err error) {
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
			was := s.visibleTo(tx)
			next := f(i, was, at)
			if next == nil {
				continue
			}
			if was == nil || was.Version != next.Version {
				n++
			}
			q.store(tx, s, next)
		}
		return nil
	})
	return n, err
}

// store changes s to next: at once, or when tx commits.
func (q *Queue) store(tx *memTx, s *schedule, next *schedules.State) {
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
	if s.committed == nil || s.committed.IsGone() {
		delete(q.schedules, s.name)
		return
	}
	q.wake(queueOf(s.committed.Job))
}

// SetSchedules implements [driver.Scheduler].
func (q *Queue) SetSchedules(ctx context.Context, db queue.DB, list ...queue.Schedule) error {
	if err := driver.CheckSchedules(q.opts.MaxPayload, list...); err != nil {
		return err
	}
	names, set := schedules.Set(list)
	_, err := q.change(ctx, "set schedules", db, names, set)
	return err
}

// DeclareSchedules implements [driver.Scheduler].
func (q *Queue) DeclareSchedules(ctx context.Context, db queue.DB, d queue.Declaration) (n int, err error) {
	if err := d.Check(q.opts.MaxPayload); err != nil {
		return 0, err
	}
	names, declare := schedules.Declare(d)
	return q.change(ctx, "declare schedules", db, names, declare)
}

// DeleteSchedules implements [driver.Scheduler].
func (q *Queue) DeleteSchedules(ctx context.Context, db queue.DB, names ...string) (n int, err error) {
	if err := driver.CheckScheduleNames(names...); err != nil {
		return 0, err
	}
	names, remove := schedules.Delete(names)
	return q.change(ctx, "delete schedules", db, names, remove)
}

// Schedules implements [driver.Scheduler].
func (q *Queue) Schedules(ctx context.Context) (all []queue.ScheduleRecord, err error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("schedules", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.schedules {
		if c := s.committed; c != nil && !c.Deleted {
			r := c.ScheduleRecord
			r.Schedule = r.Clone()
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b queue.ScheduleRecord) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// FireSchedules implements [driver.Scheduler]. It leaves a schedule to the next call whose
// row, or whose job's key, an open transaction has locked.
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
		if s.tx == nil {
			s.committed = cmp.Or(schedules.Rewound(s.committed, at), s.committed)
		}
		due := s.committed.Next.Sub(at)
		if due <= 0 {
			tick := s.committed.Next
			isBusy, failed := q.fire(s, at)
			switch {
			case failed != nil:
				s.retryAt = at.Add(schedules.RetryTick)
				err = errors.Join(err, failed)
				continue
			case isBusy:
				due = busyTick
			default:
				fired++
				err = errors.Join(err, s.committed.CheckTick(tick))
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
	if err := schedules.CheckJobs(jobs, q.opts.MaxPayload); err != nil {
		return false, err
	}
	for _, j := range jobs {
		if _, busy := q.holder(nil, keyOf(j)); busy != nil {
			return true, nil
		}
	}
	for _, j := range jobs {
		q.insert(nil, nil, j, at)
	}
	s.committed = s.committed.Fired(jobs, following)
	return false, nil
}
