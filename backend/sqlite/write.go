package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// errUndo ends a transaction of write that turned out to have nothing to do.
var errUndo = errors.New("nothing to do")

// errCommit says that a transaction has failed when all that it consists of had been
// done: the disk may have it, or not.
var errCommit = errors.New("commit")

// write runs f in a transaction on the backend's own handle: again where another
// connection has the write lock, so f begins anew what it returns. The first
// statement of f writes: then the transaction has the write lock either from its
// BEGIN, as DSN has it, or from that statement on, and never asks for it after it
// has read, when SQLite would not let it wait.
//
// Until the lock is there the call ends with ctx. After that nothing interrupts it: f gets
// a context that does not end, and takes milliseconds.
func (b *Backend) write(ctx context.Context, operation string, f func(ctx context.Context, db queue.DB) error) error {
	hot, err := b.prepared(ctx)
	if err != nil {
		return wrap(ctx, operation, err)
	}
	return b.writeOn(ctx, operation, b.db, hot, f)
}

// writeOn is write on a pool, which may be the caller's, with its prepared statements.
func (b *Backend) writeOn(ctx context.Context, operation string, pool handle.Connector, hot hotStatements, f func(ctx context.Context, db queue.DB) error) error {
	r := ordinary
	if operation == operationExtend {
		r = urgent
	}
	t, err := b.takeTurn(ctx, r, pool)
	if err != nil {
		return wrap(ctx, operation, err)
	}
	whole := context.WithoutCancel(ctx)
	err = t.patiently(ctx, func() error { return transact(whole, t.conn, hot, f) })
	t.restore(whole)
	t.end()
	return wrap(ctx, operation, err)
}

func transact(ctx context.Context, conn *sql.Conn, hot hotStatements, f func(ctx context.Context, db queue.DB) error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(ctx, ownTx{tx, hot}); err != nil {
		rolledBack := tx.Rollback()
		if errors.Is(err, errUndo) {
			return rolledBack
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	return nil
}

// BeginTx implements [queue.TxBeginner]; db may be nil for the backend's own handle. With the parameters of [DSN] the
// transaction has the write lock from its beginning. Meanwhile the other writers of this process, and of others, wait for
// their turn instead of trying again and again, and of those that wait in this process Extend goes first.
func (b *Backend) BeginTx(ctx context.Context, db *sql.DB, o *sql.TxOptions) (tx *sql.Tx, end func(), err error) {
	const operation = "begin"
	if db == nil {
		db = b.db
	}
	t, err := b.takeTurn(ctx, long, db)
	if err != nil {
		return nil, nil, wrap(ctx, operation, err)
	}
	err = t.patiently(ctx, func() (err error) {
		tx, err = t.conn.BeginTx(ctx, o)
		return err
	})
	if err == nil {
		if _, err = tx.ExecContext(ctx, t.old); err != nil {
			_ = tx.Rollback()
		}
	}
	if err != nil {
		t.restore(context.WithoutCancel(ctx))
		t.end()
		return nil, nil, wrap(ctx, operation, err)
	}
	return tx, sync.OnceFunc(func() {
		_ = tx.Rollback() // nothing where it has ended
		t.endLong()
	}), nil
}

// turn is the time in which one writer of all has the file for itself. Until end is called the others wait.
type turn struct {
	b     *Backend
	conn  *sql.Conn // which does not wait for the write lock by itself
	old   string    // sets its busy_timeout to what it was
	begun time.Time // when it began to wait for others than the writers of this process
	since time.Time // when it last tried to get the write lock
	tries int
}

// takeTurn waits for the turn among the writers of this process, for a connection of pool, and for the turn of this process, in this order:
// a process without a free connection stops no other, and writers that wait for their turn hold no connection. It waits for
// LockTimeout, and with a transaction of the caller's until ctx ends for its turn in the process.
func (b *Backend) takeTurn(ctx context.Context, r rank, pool handle.Connector) (*turn, error) {
	timeout := b.options.LockTimeout
	patience := timeout
	if r == long {
		patience = forever
	}
	t := &turn{b: b, begun: time.Now()}
	if err := b.file.turns.enter(ctx, r, patience); err != nil {
		return nil, err
	}
	if r == long {
		t.begun = time.Now()
	}
	err := t.connect(ctx, pool)
	if err == nil {
		err = b.id.check()
	}
	if err == nil {
		err = b.file.line.enter(ctx, timeout/lineShare)
	}
	if err != nil {
		t.disconnect(context.WithoutCancel(ctx))
		b.file.turns.leave()
		return nil, err
	}
	return t, nil
}

// connect takes a connection out of pool, and makes its statements return at once where another connection has the write lock:
// patiently waits better.
func (t *turn) connect(ctx context.Context, pool handle.Connector) (err error) {
	waiting, stop := context.WithDeadline(ctx, t.begun.Add(t.b.options.LockTimeout))
	defer stop()
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

// disconnect puts the connection back.
func (t *turn) disconnect(ctx context.Context) {
	if t.conn != nil {
		t.restore(ctx)
		_ = t.conn.Close()
	}
}

const noBusyTimeout = "PRAGMA busy_timeout = 0"

func setBusyTimeout(milliseconds int) string {
	return fmt.Sprintf("PRAGMA busy_timeout = %d", milliseconds)
}

// restore sets the connection's busy_timeout to what it was. A connection for which that fails does not go back to the pool.
func (t *turn) restore(ctx context.Context) {
	if _, err := t.conn.ExecContext(ctx, t.old); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// patiently runs f until no other connection has the write lock, ctx ends, or LockTimeout is over.
func (t *turn) patiently(ctx context.Context, f func() error) error {
	return patientlySince(ctx, t.begun, t.b.options.LockTimeout, func() error {
		t.since = time.Now()
		t.tries++
		return f()
	})
}

// end lets the next writer in.
func (t *turn) end() {
	_ = t.conn.Close()
	t.b.file.leave(t.b.breather(time.Since(t.since), t.tries))
}

// endLong is end for a transaction as long as a handler. Where one follows another, a transaction of the application's that waits
// with SQLite's own patience would never find the lock free: so nobody who takes turns writes for a while.
func (t *turn) endLong() {
	_ = t.conn.Close()
	t.b.file.leaveFree(min(time.Since(t.since)/longShare, longestPause))
}

const (
	longestPause = 100 * time.Millisecond // how often SQLite tries, at least
	longShare    = 8                      // one in so many parts of the time is left to others
)

// breather is how long this process leaves the write lock alone after it had it for that long: half of
// that where somebody else may be waiting for it. SQLite's own way to wait is to try again after 1, 2, 5 ms, and so on
// up to 100, so a transaction of the caller's would hardly ever meet the moment between two of ours.
func (b *Backend) breather(held time.Duration, tries int) time.Duration {
	const remembered = time.Second
	if tries > 1 {
		b.file.contended.Store(time.Now().UnixNano())
	}
	others := b.db.Stats().InUse > 0 || time.Now().UnixNano()-b.file.contended.Load() < int64(remembered)
	if !others {
		return 0
	}
	return min(held/2, longestPause)
}
