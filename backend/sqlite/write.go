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

// errUndo rolls a transaction of write back that turned out to have nothing to do.
var errUndo = errors.New("nothing to do")

// errCommit says that a commit has failed. The disk may have the transaction or not.
var errCommit = errors.New("commit")

// write runs f in a transaction on the backend's own handle. It runs f again where another
// connection has the write lock, so f must begin its results anew. The first statement of f writes.
// Then the transaction has the write lock from its BEGIN, as DSN has it, or from that statement. It
// never asks for the lock after it has read, when SQLite would not let it wait.
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

// writeOn is write on a pool, which may be the caller's, with its prepared statements.
func (b *Backend) writeOn(ctx context.Context, operation string, pool handle.Connector, hot hotStatements, f func(ctx context.Context, db queue.DB) error) error {
	rank := writelock.Ordinary
	if operation == operationExtend {
		rank = writelock.Urgent
	}
	t, err := b.takeTurn(ctx, rank, pool)
	if err != nil {
		return wrap(ctx, operation, err)
	}
	defer t.end(ctx)
	err = t.Try(ctx, func() error { return transact(context.WithoutCancel(ctx), t.conn, hot, f) })
	return wrap(ctx, operation, err)
}

func transact(ctx context.Context, conn *sql.Conn, hot hotStatements, f func(ctx context.Context, db queue.DB) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing where it has ended
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

// BeginTx implements [queue.TxBeginner]; db may be nil for the backend's own handle. With the
// parameters of [DSN] the transaction has the write lock from its beginning. Meanwhile the other
// writers of this process, and of other processes, wait for their turn instead of trying again and
// again. Of those that wait in this process Extend goes first.
func (b *Backend) BeginTx(ctx context.Context, db *sql.DB, o *sql.TxOptions) (tx *sql.Tx, end func(), err error) {
	const operation = "begin"
	if db == nil {
		db = b.db
	}
	t, err := b.takeTurn(ctx, writelock.Long, db)
	if err != nil {
		return nil, nil, wrap(ctx, operation, err)
	}
	if tx, err = t.begin(ctx, o); err != nil {
		return nil, nil, wrap(ctx, operation, err)
	}
	return tx, sync.OnceFunc(func() {
		defer t.release()
		_ = tx.Rollback() // nothing where it has ended
	}), nil
}

// begin begins a transaction of the caller's on the turn's connection, with its own busy_timeout.
// If that fails, begin ends the turn.
func (t *turn) begin(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error) {
	var tx *sql.Tx
	isBegun := false
	defer func() {
		if isBegun {
			return
		}
		defer t.end(ctx)
		if tx != nil {
			_ = tx.Rollback()
		}
	}()
	err := t.Try(ctx, func() (err error) {
		tx, err = t.conn.BeginTx(ctx, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, t.old); err != nil {
		return nil, err
	}
	isBegun = true
	return tx, nil
}

// turn is the time in which one writer of all has the file for itself, and its connection, which
// does not wait for the write lock by itself. Until end or release the other writers wait, so a
// deferred function calls them: a driver or the caller's handle may panic.
type turn struct {
	*writelock.Turn
	b    *Backend
	conn *sql.Conn
	old  string // sets the connection's busy_timeout to what it was
}

// takeTurn waits for the turn and for a connection of pool, each for LockTimeout at most. A
// transaction of the caller's waits for the other writers of this process until ctx ends.
func (b *Backend) takeTurn(ctx context.Context, rank writelock.Rank, pool handle.Connector) (_ *turn, err error) {
	t := &turn{b: b}
	defer func() {
		if t.Turn == nil {
			t.disconnect(ctx)
		}
	}()
	t.Turn, err = b.file.lock.Acquire(ctx, rank, b.options.LockTimeout, func(waiting context.Context) error {
		if err := t.connect(ctx, waiting, pool); err != nil {
			return err
		}
		return b.id.check()
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// connect takes a connection out of pool until waiting, which is a part of ctx, ends. It makes the
// connection's statements return at once where another connection has the write lock: Try waits
// better.
func (t *turn) connect(ctx, waiting context.Context, pool handle.Connector) (err error) {
	if t.conn, err = pool.Conn(waiting); err != nil {
		return t.b.noConnection(ctx, waiting, err)
	}
	whole := context.WithoutCancel(ctx)
	t.old = t.b.restore
	if pool != handle.Connector(t.b.db) {
		var was int
		if err := t.conn.QueryRowContext(whole, "PRAGMA busy_timeout").Scan(&was); err != nil {
			return err
		}
		t.old = setBusyTimeout(was)
	}
	_, err = t.conn.ExecContext(whole, noBusyTimeout)
	return err
}

// disconnect puts the connection back into its pool, as it was. One whose busy_timeout cannot be
// set back does not go back.
func (t *turn) disconnect(ctx context.Context) {
	if t.conn == nil {
		return
	}
	defer t.conn.Close()
	if _, err := t.conn.ExecContext(context.WithoutCancel(ctx), t.old); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// end puts the connection back, and lets the next writer in.
func (t *turn) end(ctx context.Context) {
	defer t.release()
	t.disconnect(ctx)
}

// release closes the connection, and lets the next writer in.
func (t *turn) release() {
	defer func() { t.Release(t.b.db.Stats().InUse > 0) }()
	_ = t.conn.Close() // nothing where it is closed
}

const noBusyTimeout = "PRAGMA busy_timeout = 0"

func setBusyTimeout(milliseconds int) string {
	return fmt.Sprintf("PRAGMA busy_timeout = %d", milliseconds)
}
