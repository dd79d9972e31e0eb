package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/schedules"
	"github.com/errandhq/errand/queue"
)

// Firing schedules.
//
// Problem: each worker asks again and again whether a schedule is due, also where there is none. Many
// workers wake at the same tick, and each tick is to be fired once.
// Rule: the statement by which a worker registers as sleeping also returns when the next tick comes,
// and a change of schedules wakes sleeping workers. So a process knows the next tick, and asks on its
// own only while none of its workers has slept. At a tick it locks the schedules that are due and not
// locked, enqueues their jobs, and moves them on, in one transaction: the others find nothing.
// Bounds: a process whose workers have not slept hears of a change within knownBusy.
// Shown by: TestIdleWorkersDoNotAskForSchedules, TestBrokenSchedules; the suite's cases of schedules.

const (
	// fireBatch is how many schedules are fired in one transaction.
	fireBatch = 500
	// knownAsleep is how long the next tick is known after a worker has registered as sleeping. It
	// does so at least every 30 s.
	knownAsleep = 35 * time.Second
	// knownBusy is how long it is known after this process has asked for it. Workers call
	// FireSchedules each 5 s.
	knownBusy = 4 * time.Second
	// lockedTick is how long until a process asks again for a tick that another one is firing.
	lockedTick = 10 * time.Millisecond
)

// ticks is what this process knows about the next tick. Its zero value knows nothing.
type ticks struct {
	mu      sync.Mutex
	known   time.Time            // until when next holds
	next    time.Time            // zero if there is none
	left    map[string]time.Time // schedules that could not be fired, and until when to leave them alone
	singles int                  // how many schedules to fire one by one, because a batch has failed
	denied  time.Time            // until then this process fires nothing, because it lacks a right
}

// note records when the next tick comes, below 0 for none, and for how long that is known.
func (t *ticks) note(next, known time.Duration) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.next = now.Add(known), time.Time{}
	if next >= 0 {
		t.next = now.Add(next)
	}
}

// expire forgets the next tick.
func (t *ticks) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = time.Time{}
}

// untilNext returns how long until the next tick, or less than 0 for none. ok is false if it is not
// known, or if a tick has come.
func (t *ticks) untilNext() (next time.Duration, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case now.Before(t.denied):
		return -1, true
	case !now.Before(t.known):
		return 0, false
	case t.next.IsZero():
		return -1, true
	}
	return t.next.Sub(now), t.next.After(now)
}

// leave leaves a schedule alone for d.
func (t *ticks) leave(name string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == nil {
		t.left = make(map[string]time.Time)
	}
	t.left[name] = time.Now().Add(d)
}

// leftAlone returns the schedules that could not be fired, as an array.
func (t *ticks) leftAlone() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names array
	for name, until := range t.left {
		if time.Now().After(until) {
			delete(t.left, name)
		} else {
			names.string(name)
		}
	}
	return names.String()
}

// deny leaves all schedules to other processes for d.
func (t *ticks) deny(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.denied = time.Now().Add(d)
}

// batch returns how many schedules to fire at once.
func (t *ticks) batch() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.singles > 0 {
		t.singles--
		return 1
	}
	return fireBatch
}

// fireSingly makes the next calls of batch return 1, because a batch of that size has failed.
func (t *ticks) fireSingly(size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.singles = size
}

// FireSchedules implements [queue.ScheduleRunner]. It fires one batch, in one transaction:
// sql/schedule_due.sql, an Enqueue and sql/schedule_fired.sql. The process needs the rights of the
// enqueueing role for that, or else leaves schedules to others. A schedule that cannot be fired is
// left alone for a minute.
func (b *Backend) FireSchedules(ctx context.Context) (fired int, next time.Duration, err error) {
	if next, ok := b.ticks.untilNext(); ok {
		return 0, next, nil
	}
	if next, err = b.lookForTick(ctx); err != nil || next != 0 {
		return 0, next, err
	}
	batch := b.ticks.batch()
	fired, err = b.fireDue(ctx, batch)
	if err != nil {
		return fired, 0, err
	}
	b.ticks.expire()
	if fired == batch {
		return fired, 0, nil
	}
	if next, err = b.lookForTick(ctx); next == 0 {
		next = lockedTick
	}
	return fired, next, err
}

// lookForTick asks the server how long until the next tick, with sql/schedule_next.sql. It returns
// 0 if a tick has come, and less than 0 if there is none.
func (b *Backend) lookForTick(ctx context.Context) (next time.Duration, err error) {
	var micros sql.NullInt64
	err = b.run(ctx, "next tick", nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&micros) }, b.sql.scheduleNext, b.ticks.leftAlone())
	})
	if err != nil {
		return 0, err
	}
	next = untilDue(micros)
	b.ticks.note(next, knownBusy)
	return next, nil
}

// fireDue fires at most batch schedules that are due and not locked. It returns how many it has
// fired, and the errors of those that it could not fire.
func (b *Backend) fireDue(ctx context.Context, batch int) (fired int, err error) {
	var names []string
	var broken error
	err = b.inTx(ctx, "fire schedules", func(tx queue.DB) error {
		names, broken = nil, nil
		at, rows, err := b.queryScheduleRows(ctx, tx, b.sql.scheduleDue, b.ticks.leftAlone(), batch)
		if err != nil || len(rows) == 0 {
			return err
		}
		var ready []firing
		for _, r := range rows {
			s, jobs, next, err := r.FireRow(at, b.options.MaxPayload)
			if err != nil {
				b.ticks.leave(r.Name, schedules.RetryTick)
				broken = errors.Join(broken, err)
				continue
			}
			names = append(names, r.Name)
			ready = append(ready, firing{r, s, jobs, next})
		}
		return b.enqueueTicks(ctx, tx, ready)
	})
	if broken != nil {
		broken = fmt.Errorf("postgres: fire schedules: %w", broken)
	}
	switch {
	case err == nil:
		return len(names), broken
	case len(names) == 0 || sqlState(err) == "" || ctx.Err() != nil: // it has to do with the connection
	case sqlState(err) == insufficientPrivilege:
		b.ticks.deny(schedules.RetryTick)
		err = fmt.Errorf("%d schedules are left to workers with the rights of the enqueueing role: %w", len(names), err)
	case len(names) == 1 && lockTimedOut(err): // a transaction holds the key of its job
		b.ticks.leave(names[0], time.Second)
		err = nil
	case len(names) == 1:
		b.ticks.leave(names[0], schedules.RetryTick)
		err = fmt.Errorf("schedule %q: %w", names[0], err)
	default:
		b.ticks.fireSingly(len(names))
		if lockTimedOut(err) {
			err = nil
		}
	}
	return 0, errors.Join(broken, err)
}

// firing is a locked schedule whose tick has come, with its jobs and the tick that follows.
type firing struct {
	row   sqlkit.ScheduleRow
	state *schedules.State
	jobs  []*queue.Job
	next  time.Time
}

// firedSchedule is an element of the first parameter of sql/schedule_fired.sql.
type firedSchedule struct {
	Name     string `json:"name"`
	Version  int64  `json:"version"`
	Was      int64  `json:"was"`
	NextAt   int64  `json:"next_at"`
	LastTick int64  `json:"last_tick"`
	LastJob  int64  `json:"last_job"`
	Skipped  int64  `json:"skipped"`
}

// enqueueTicks enqueues the jobs of locked schedules and moves the schedules on.
func (b *Backend) enqueueTicks(ctx context.Context, tx queue.DB, all []firing) error {
	var jobs []*queue.Job
	for _, f := range all {
		jobs = append(jobs, f.jobs...)
	}
	if err := b.Enqueue(ctx, tx, jobs...); err != nil {
		return err
	}
	var moved []firedSchedule
	for _, f := range all {
		row, err := sqlkit.NewScheduleRow(f.state.Fired(f.jobs, f.next))
		if err != nil {
			return err
		}
		moved = append(moved, firedSchedule{row.Name, row.Version, f.row.NextAt, row.NextAt, row.LastTick, row.LastJob, row.Skipped})
	}
	if len(moved) == 0 {
		return nil
	}
	text, err := json.Marshal(moved)
	if err != nil {
		return err
	}
	n := 0
	err = sqlkit.QueryRows(ctx, tx, func(rows *sql.Rows) error {
		n++
		return rows.Scan(new(string))
	}, b.sql.scheduleFired, string(text))
	if err == nil && n != len(moved) {
		err = fmt.Errorf("%d of %d locked schedules were there", n, len(moved))
	}
	return err
}

// inTx runs f in a transaction on the backend's own handle, and again where shouldRetry says so.
func (b *Backend) inTx(ctx context.Context, operation string, f func(tx queue.DB) error) error {
	return b.run(ctx, operation, nil, func(db queue.DB) error {
		if conn, ok := db.(*sql.Conn); ok {
			return readCommitted(ctx, conn, f)
		}
		return f(db) // run has begun one
	})
}
