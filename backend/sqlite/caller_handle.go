package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// onCallersHandle runs f on the caller's transaction or connection, within the transaction that is
// open there, if one is. SQLite rolls a whole transaction back when one of its writing statements
// is interrupted. So ctx ends the call only until it has the write lock.
func (b *Backend) onCallersHandle(ctx context.Context, operation string, db queue.DB, kind handle.Kind, f func(ctx context.Context, db queue.DB) error) error {
	if err := ctx.Err(); err != nil {
		return wrap(ctx, operation, err)
	}
	if err := b.id.check(); err != nil {
		return wrap(ctx, operation, err)
	}
	h := callerHandle{DB: db, tx: kind == handle.Tx, ran: new(int), waiting: ctx, timeout: b.options.LockTimeout}
	uncancelled := context.WithoutCancel(ctx)
	if err := h.checkOpen(uncancelled); err != nil {
		return wrap(ctx, operation, err)
	}
	restore, err := func() {}, error(nil)
	if kind != handle.Unknown { // an unknown handle may be a pool, and run each statement on another connection
		restore, err = h.withoutBusyTimeout(uncancelled)
	}
	defer restore()
	if err == nil {
		err = f(uncancelled, h)
	}
	if err != nil && !h.tx && (*h.ran > 0 || sqliteerr.IsDiskError(err)) {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return wrap(ctx, operation, err)
}

// callerHandle is the caller's transaction or connection. Its transaction may not have the write
// lock yet, so each statement waits for it.
type callerHandle struct {
	queue.DB
	tx      bool            // the handle is a transaction, not a connection
	ran     *int            // how many statements have succeeded
	waiting context.Context // ends the wait
	timeout time.Duration
}

// errEnded says that a transaction is over although the caller has not ended it.
var errEnded = fmt.Errorf("%w: SQLite has rolled it back by itself, as it does when a statement "+
	"is interrupted or the disk is full; what was written in it before is undone", sql.ErrTxDone)

// checkOpen returns errEnded if h is a transaction that SQLite has ended by itself. database/sql
// does not notice, and each later statement would commit by itself. The check is the statement
// BEGIN: within a transaction it fails and changes nothing.
func (h callerHandle) checkOpen(ctx context.Context) error {
	if !h.tx {
		return nil
	}
	_, err := h.ExecContext(ctx, "BEGIN")
	switch {
	case sqliteerr.IsWithinTx(err):
		return nil
	case err != nil:
		return err
	}
	_, err = h.ExecContext(ctx, "ROLLBACK")
	return errors.Join(errEnded, err)
}

// withoutBusyTimeout sets the busy_timeout of h, which is one connection, to 0, until restore is
// called. A statement then returns at once if another connection has the write lock. SQLite's own
// wait does not end with a context.
func (h callerHandle) withoutBusyTimeout(ctx context.Context) (restore func(), err error) {
	var was int
	err = queryRows(ctx, h.DB, func(rows *sql.Rows) error { return rows.Scan(&was) }, "PRAGMA busy_timeout")
	if err != nil || was == 0 {
		return func() {}, err
	}
	_, err = h.ExecContext(ctx, noBusyTimeout)
	return func() {
		// This fails only if the connection is broken.
		_, _ = h.ExecContext(ctx, setBusyTimeout(was))
	}, err
}

// errStaleRead says that a transaction can never write, because it keeps its old view of the data.
// Retrying cannot help.
var errStaleRead = errors.New("the transaction has read what another transaction has changed since, so SQLite does not let it " +
	"write: roll it back and begin a new one, best with the write lock from the beginning (_txlock=immediate, which sqlite.DSN sets)")

// retryBusy runs f, which is one statement, again until it gets the write lock.
func (h callerHandle) retryBusy(f func() error) error {
	// The first statement of a transaction can meet such a commit, too, but not ten times in a row.
	const maxStale = 10
	stale := 0
	return writelock.RetryBusy(h.waiting, h.timeout, func() error {
		err := f()
		if err == nil {
			*h.ran++
		}
		if sqliteerr.IsStale(err) {
			if stale++; stale == maxStale {
				return errStaleRead
			}
		}
		if sqliteerr.IsBusy(err) {
			if ended := h.checkOpen(context.WithoutCancel(h.waiting)); ended != nil {
				return ended
			}
		}
		return err
	})
}

// errPartly says that a call has failed on a handle that is no transaction, after some of its
// statements had taken effect, or may have.
var errPartly = errors.New("not in a transaction, so some of the statements may have taken effect")
