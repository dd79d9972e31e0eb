package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/schedules"
	"github.com/errandhq/errand/queue"
)

// Firing schedules.
//
// Problem: each worker asks again and again whether a schedule is due, also where there is none.
// Many workers wake at the same tick, and each tick is to be fired once. Rule: the statement by
// which a worker registers as sleeping also returns when the next tick comes, and a change of
// schedules wakes sleeping workers. So a process knows the next tick, and asks on its own only
// while none of its workers has slept. At a tick it locks the schedules that are due and not
// locked, enqueues their jobs, and moves them on, in one transaction: the others find nothing.
// Bounds: a process whose workers have not slept hears of a change within five seconds. Shown by:
// TestIdleWorkersDoNotAskForSchedules, TestBrokenSchedules; the suite's cases of schedules.

// lockedTick is how long until a process asks again for a tick that another one is firing.
const lockedTick = 10 * time.Millisecond

// FireSchedules implements [queue.ScheduleRunner]. It fires one batch, in one transaction:
// sql/schedule_due.sql, an Enqueue and sql/schedule_fired.sql. The process needs the rights of the
// enqueueing role for that, or else leaves schedules to others. A schedule that cannot be fired is
// left alone for a minute.
func (b *Backend) FireSchedules(ctx context.Context) (fired int, next time.Duration, err error) {
	look := func() (time.Duration, error) { return b.lookForTick(ctx) }
	fire := func(batch int) (int, error) { return b.fireDue(ctx, batch) }
	return b.ticks.Fire(look, fire, lockedTick)
}

// lookForTick asks the server how long until the next tick, with sql/schedule_next.sql. It returns
// 0 if a tick has come, and less than 0 if there is none.
func (b *Backend) lookForTick(ctx context.Context) (next time.Duration, err error) {
	var micros sql.NullInt64
	err = b.run(ctx, "next tick", nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&micros) }, b.sql.scheduleNext, textArray(b.ticks.Left()))
	})
	if err != nil {
		return 0, err
	}
	next = untilDue(micros)
	b.ticks.NoteAsked(next)
	return next, nil
}

// fireDue fires at most batch schedules that are due and not locked. It returns how many it has
// fired, and the errors of those that it could not fire.
func (b *Backend) fireDue(ctx context.Context, batch int) (fired int, err error) {
	var ready []sqlkit.Firing
	var broken error
	err = b.inTx(ctx, "fire schedules", func(tx queue.DB) error {
		ready, broken = nil, nil
		at, rows, err := b.queryScheduleRows(ctx, tx, b.sql.scheduleDue, textArray(b.ticks.Left()), batch)
		if err != nil || len(rows) == 0 {
			return err
		}
		ready, broken = b.ticks.FireRows(rows, at, b.options.MaxPayload)
		return b.enqueueTicks(ctx, tx, ready)
	})
	if broken != nil {
		broken = fmt.Errorf("postgres: fire schedules: %w", broken)
	}
	switch {
	case err == nil:
		return len(ready), broken
	case len(ready) == 0 || sqlState(err) == "" || ctx.Err() != nil: // it has to do with the connection
	case sqlState(err) == insufficientPrivilege:
		b.ticks.Deny(schedules.RetryTick)
		err = fmt.Errorf("%d schedules are left to workers with the rights of the enqueueing role: %w", len(ready), err)
	case len(ready) == 1 && lockTimedOut(err): // a transaction holds the key of its job
		b.ticks.Leave(ready[0].Row.Name, time.Second)
		err = nil
	case len(ready) == 1:
		b.ticks.Leave(ready[0].Row.Name, schedules.RetryTick)
		err = fmt.Errorf("schedule %q: %w", ready[0].Row.Name, err)
	default:
		b.ticks.FireSingly(len(ready))
		if lockTimedOut(err) {
			err = nil
		}
	}
	return 0, errors.Join(broken, err)
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
func (b *Backend) enqueueTicks(ctx context.Context, tx queue.DB, all []sqlkit.Firing) error {
	if err := b.Enqueue(ctx, tx, sqlkit.JobsOf(all)...); err != nil {
		return err
	}
	var moved []firedSchedule
	for _, f := range all {
		row, err := f.Fired()
		if err != nil {
			return err
		}
		moved = append(moved, firedSchedule{row.Name, row.Version, f.Row.NextAt, row.NextAt, row.LastTick, row.LastJob, row.Skipped})
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
