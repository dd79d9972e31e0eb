package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/schedules"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/plain"
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
// TestIdleWorkersDoNotAskForSchedules, TestChangeWhileFallingAsleep, TestBrokenSchedules,
// TestFiringDoesNotBlameSchedules; the suite's cases of schedules.

// FireSchedules implements [driver.Scheduler]. It fires one batch, in one transaction:
// sql/schedule_due.sql, an Enqueue and sql/schedule_fired.sql. The process needs the rights of the
// enqueueing role for that, or else leaves schedules to others. A schedule that cannot be fired is
// left alone for a minute.
func (b *Backend) FireSchedules(ctx context.Context) (fired int, next time.Duration, err error) {
	look := func(later bool) (time.Duration, error) { return b.lookForTick(ctx, later) }
	fire := func() (int, bool, error) { return b.fireDue(ctx) }
	return b.ticks.Fire(func() error { return b.rewindSchedules(ctx) }, look, fire)
}

// rewindSchedules does what [schedules.Rewind] says. A process without the right leaves it to
// others.
func (b *Backend) rewindSchedules(ctx context.Context) error {
	all, err := b.Schedules(ctx)
	if err == nil {
		names, rewind := schedules.Rewind(all)
		change := scheduleChange{"rewind schedules", withoutJob.Replace(b.sql["schedule_read"]), b.sql["schedule_pause"]}
		_, err = b.changeSchedules(ctx, change, nil, names, rewind)
	}
	if sqlState(err) == insufficientPrivilege {
		return nil
	}
	return err
}

// lookForTick asks the server how long until the next tick, with sql/schedule_next.sql. It returns
// 0 if a tick has come, and less than 0 if there is none. With later it leaves out what has come.
func (b *Backend) lookForTick(ctx context.Context, later bool) (next time.Duration, err error) {
	var micros sql.NullInt64
	question := b.ticks.Ask()
	err = b.run(ctx, "next tick", nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&micros) }, b.sql["schedule_next"], textArray(b.ticks.Left()), later)
	})
	if err != nil {
		return 0, err
	}
	next = untilDue(micros)
	b.ticks.NoteAsked(question, next)
	return next, nil
}

// fireDue fires a batch of the schedules that are due and not locked. It returns how many it has
// fired, whether more may be due, and the errors of those that it could not fire. Each run of the
// transaction that fails makes the next batch half as large.
func (b *Backend) fireDue(ctx context.Context) (fired int, hasMore bool, err error) {
	var batch *sqlkit.Batch
	err = b.inTx(ctx, "fire schedules", func(tx queue.DB) error {
		batch = b.ticks.Batch(b.options.MaxPayload)
		err := b.fireBatch(ctx, tx, batch)
		b.ticks.NoteBatch(err != nil)
		if isBroken(err) { // before the commit, so nothing is written
			err = fmt.Errorf("%w: %w", driver.ErrBadConn, err)
		}
		return err
	})
	if batch == nil {
		return 0, false, err
	}
	fired, hasMore = len(batch.Ready), batch.HasMore
	if err != nil {
		fired, err = 0, b.leaveFailed(ctx, batch.Ready, err)
	}
	if batch.Broken != nil {
		err = errors.Join(fmt.Errorf("postgres: fire schedules: %w", batch.Broken), err)
	}
	return fired, hasMore, err
}

// leaveFailed decides what to leave alone after err, with which the transaction of these schedules
// has failed. It returns err, or nil if a transaction has locked the key of a job. After an error
// of the connection or the server the worker calls again, with all schedules.
func (b *Backend) leaveFailed(ctx context.Context, all []sqlkit.Firing, err error) error {
	switch {
	case len(all) == 0 || isOfServer(err) || ctx.Err() != nil:
		return err
	case sqlState(err) == insufficientPrivilege:
		err = fmt.Errorf("%s left to workers with the rights of the enqueueing role: %w", plain.Count(len(all), "schedule"), err)
		b.ticks.Deny(schedules.RetryTick, err)
		return err
	case len(all) > 1:
		b.ticks.FireSingly(len(all))
	case lockTimedOut(err):
		b.ticks.Leave(all[0].Row.Name, time.Second)
	default:
		b.ticks.Leave(all[0].Row.Name, schedules.RetryTick)
		return fmt.Errorf("schedule %q: %w", all[0].Row.Name, err)
	}
	if lockTimedOut(err) {
		return nil
	}
	return err
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

// fireBatch fills the batch with schedules that are due and not locked. It enqueues their jobs and
// moves them on.
func (b *Backend) fireBatch(ctx context.Context, tx queue.DB, batch *sqlkit.Batch) error {
	at, rows, err := b.queryScheduleRows(ctx, tx, b.sql["schedule_due"], textArray(b.ticks.Left()), batch.Schedules, batch.Bytes)
	if err != nil || len(rows) == 0 {
		return err
	}
	batch.Fire(rows, at)
	if err := b.Enqueue(ctx, tx, batch.Jobs()...); err != nil {
		return err
	}
	return b.moveOn(ctx, tx, batch.Ready)
}

// moveOn writes the next ticks of schedules whose jobs are enqueued, with sql/schedule_fired.sql.
func (b *Backend) moveOn(ctx context.Context, tx queue.DB, all []sqlkit.Firing) error {
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
	}, b.sql["schedule_fired"], string(text))
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
