package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// errUndo makes write roll its transaction back, because there is nothing to do after all.
var errUndo = errors.New("nothing to do")

// errCommit says that a commit has failed. The transaction may be on the disk or not.
var errCommit = errors.New("commit")

// write runs f in a transaction on the backend's own handle. While another connection has the write
// lock, it repeats f, so f must reset its results when it begins.
//
// The first statement of f must write. The transaction then has the write lock from its BEGIN, with
// the parameters of DSN, or else from that statement. It must not read first, because SQLite then
// fails at once instead of waiting.
//
// Until the transaction has the lock, ctx ends the call. After that nothing interrupts it: f gets a
// context that does not end, and takes milliseconds.
func (b *Backend) write(ctx context.Context, operation string, f func(ctx context.Context, db queue.DB) error) error {
	hot, err := b.prepared(ctx)
	if err != nil {
		return wrap(ctx, operation, err)
	}
	return b.writeOn(ctx, operation, b.db, hot, f)
}

// writeOn is write on a given pool, which may be the caller's. hot holds the statements that are
// prepared on that pool, or nil.
func (b *Backend) writeOn(ctx context.Context, operation string, pool handle.Connector, hot hotStatements, f func(ctx context.Context, db queue.DB) error) error {
	rank := writelock.Ordinary
	if operation == operationExtend {
		rank = writelock.Urgent
	}
	w, err := b.takeTurn(ctx, rank, pool)
	if err != nil {
		return wrap(ctx, operation, err)
	}
	defer w.end(ctx)
	err = w.Try(ctx, func() error { return transact(context.WithoutCancel(ctx), w.conn, hot, f) })
	return wrap(ctx, operation, err)
}

func transact(ctx context.Context, conn *sql.Conn, hot hotStatements, f func(ctx context.Context, db queue.DB) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := f(ctx, ownTx{tx, hot}); err != nil {
		if errors.Is(err, errUndo) {
			return tx.Rollback()
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	return nil
}

// BeginTx implements [driver.TxBeginner]; db may be nil for the backend's own handle. With the
// parameters of [DSN] the transaction has the write lock from its beginning. Until end is called,
// the other writers of this process and of other processes wait for their turn, and do not try the
// lock again and again. In this process a waiting Extend has the next turn.
func (b *Backend) BeginTx(ctx context.Context, db *sql.DB, o *sql.TxOptions) (tx *sql.Tx, end func(), err error) {
	const operation = "begin"
	if db == nil {
		db = b.db
	}
	w, err := b.takeTurn(ctx, writelock.Long, db)
	if err != nil {
		return nil, nil, wrap(ctx, operation, err)
	}
	if tx, err = w.begin(ctx, o); err != nil {
		return nil, nil, wrap(ctx, operation, err)
	}
	return tx, sync.OnceFunc(func() {
		defer w.release()
		_ = tx.Rollback() // does nothing after Commit
	}), nil
}

// begin begins a transaction for the caller on the writer's connection, with the busy_timeout that
// the connection had before. If that fails, begin ends the turn.
func (w *writer) begin(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error) {
	var tx *sql.Tx
	isBegun := false
	defer func() {
		if isBegun {
			return
		}
		defer w.end(ctx)
		if tx != nil {
			_ = tx.Rollback()
		}
	}()
	err := w.Try(ctx, func() (err error) {
		tx, err = w.conn.BeginTx(ctx, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, w.restoreTimeout); err != nil {
		return nil, err
	}
	isBegun = true
	return tx, nil
}

// writer has its turn to write, and a connection, whose own statements do not wait for the write
// lock. All other writers of the file wait until end or release is called. Call them in a deferred
// function: a driver or the caller's handle may panic.
type writer struct {
	*writelock.Turn
	b              *Backend
	conn           *sql.Conn
	restoreTimeout string // the statement that restores the connection's busy_timeout
}

// takeTurn waits for the turn and for a connection of pool, each for LockTimeout at most. A writer
// of rank Long waits for the other writers of this process until ctx ends.
func (b *Backend) takeTurn(ctx context.Context, rank writelock.Rank, pool handle.Connector) (_ *writer, err error) {
	w := &writer{b: b}
	defer func() {
		if w.Turn == nil {
			w.disconnect(ctx)
		}
	}()
	w.Turn, err = b.file.lock.Acquire(ctx, rank, b.options.LockTimeout, func(waiting context.Context) error {
		if err := w.connect(ctx, waiting, pool); err != nil {
			return err
		}
		return b.id.check()
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// connect takes a connection out of pool. It waits until waiting ends, which is derived from ctx.
// It sets the connection's busy_timeout to 0: Try waits for the write lock instead.
func (w *writer) connect(ctx, waiting context.Context, pool handle.Connector) (err error) {
	if w.conn, err = pool.Conn(waiting); err != nil {
		return w.b.noConnection(ctx, waiting, err)
	}
	uncancelled := context.WithoutCancel(ctx)
	w.restoreTimeout = w.b.restoreTimeout
	if pool != handle.Connector(w.b.db) {
		var was int
		if err := w.conn.QueryRowContext(uncancelled, "PRAGMA busy_timeout").Scan(&was); err != nil {
			return err
		}
		w.restoreTimeout = setBusyTimeout(was)
	}
	_, err = w.conn.ExecContext(uncancelled, noBusyTimeout)
	return err
}

// disconnect restores the connection's busy_timeout and returns the connection to its pool. If the
// busy_timeout cannot be restored, it closes the connection for good.
func (w *writer) disconnect(ctx context.Context) {
	if w.conn == nil {
		return
	}
	defer w.conn.Close()
	if _, err := w.conn.ExecContext(context.WithoutCancel(ctx), w.restoreTimeout); err != nil {
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// end returns the connection to its pool as it was, and lets the next writer in.
func (w *writer) end(ctx context.Context) {
	defer w.release()
	w.disconnect(ctx)
}

// release returns the connection to its pool without restoring its busy_timeout, and lets the next
// writer in.
func (w *writer) release() {
	defer func() { w.Release(w.b.db.Stats().InUse > 0) }()
	_ = w.conn.Close() // does nothing after disconnect
}

const noBusyTimeout = "PRAGMA busy_timeout = 0"

func setBusyTimeout(milliseconds int) string {
	return fmt.Sprintf("PRAGMA busy_timeout = %d", milliseconds)
}
