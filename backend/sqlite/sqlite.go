package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// Backend is a queue in a SQLite database. It is safe for concurrent use and owns no
// goroutine and no connection but for the time of a call; one that ends while another process
// has its turn leaves a goroutine behind until that has ended. Besides [queue.Queue]
// it implements every optional interface of package queue.
type Backend struct {
	db      *sql.DB
	options Options
	sql     statements
	file    *file
	restore string // sets a connection's busy_timeout to what it was
	sweep   sweep
	hot     atomic.Pointer[hotStatements] // nil until they are needed
	polled  atomic.Int64                  // when Listen last looked into the file, as UnixNano
}

var _ interface {
	queue.Queue
	queue.Waiter
	queue.Inspector
	queue.Backlogger
	queue.Redriver
	queue.Pruner
	queue.Reclaimer
	queue.TxClaimer
	queue.Pooled
} = (*Backend)(nil)

// New returns the queue in db, which stays the caller's to close, after any
// worker's Run has returned. [Migrate] must have been run with the same Options before
// the first call. New looks at one connection, for at most LockTimeout: it puts the
// file in WAL mode, where it is not, and what cannot work is a
// [*queue.InvalidError], which says what to do about it: a database in memory, a
// busy_timeout of 0, and, unless Relaxed is set, a synchronous below FULL.
func New(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, invalid("DB", "nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.LockTimeout)
	defer cancel()
	found, err := examine(ctx, db, o)
	if err != nil {
		return nil, err
	}
	if err := found.check(o); err != nil {
		return nil, err
	}
	return &Backend{
		db: db, options: o, sql: loadStatements(o.Prefix), file: fileAt(found.path),
		restore: fmt.Sprintf("PRAGMA busy_timeout = %d", found.busyTimeout),
	}, nil
}

// read runs f, which only reads, on the backend's own handle.
func (b *Backend) read(ctx context.Context, verb string, f func(db queue.DB) error) error {
	hot, err := b.prepared(ctx)
	if err == nil {
		err = patiently(ctx, b.options.LockTimeout, func() error { return f(ownDB{b.db, hot}) })
	}
	return said(ctx, verb, err)
}

// errUndo ends a transaction of write that turned out to have nothing to do.
var errUndo = errors.New("nothing to do")

// write runs f in a transaction on the backend's own handle: again where another
// connection has the write lock, so f begins anew what it returns. The first
// statement of f writes: then the transaction has the write lock either from its
// BEGIN, as DSN has it, or from that statement on, and never asks for it after it
// has read, when SQLite would not let it wait.
//
// Until the lock is there the call ends with ctx. After that nothing interrupts it: f gets
// a context that does not end, and takes milliseconds.
func (b *Backend) write(ctx context.Context, verb string, f func(ctx context.Context, db queue.DB) error) error {
	hot, err := b.prepared(ctx)
	if err == nil {
		err = b.file.enter(ctx, verb == verbExtend, b.options.LockTimeout)
	}
	if err != nil {
		return said(ctx, verb, err)
	}
	held, tries, err := b.writeAlone(ctx, hot, f)
	b.file.leave(b.breather(held, tries))
	return said(ctx, verb, err)
}

// writeAlone is write when it is its turn. It returns how long the last try took, and
// how many there were.
func (b *Backend) writeAlone(ctx context.Context, hot hotStatements, f func(ctx context.Context, db queue.DB) error) (held time.Duration, tries int, err error) {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	whole := context.WithoutCancel(ctx)
	if _, err := conn.ExecContext(whole, "PRAGMA busy_timeout = 0"); err != nil { // patiently waits better
		return 0, 0, err
	}
	err = patiently(ctx, b.options.LockTimeout, func() error {
		start := time.Now()
		defer func() { held = time.Since(start) }()
		tries++
		return transact(whole, conn, hot, f)
	})
	if _, restoring := conn.ExecContext(whole, b.restore); restoring != nil {
		err = errors.Join(err, restoring)
	}
	return held, tries, err
}

// breather is how long this process leaves the write lock alone after it had it for that long: half of
// that where somebody else may be waiting for it. SQLite's own way to wait is to try again after 1, 2, 5 ms, and so on
// up to 100, so a transaction of the caller's would hardly ever meet the moment between two of ours.
func (b *Backend) breather(held time.Duration, tries int) time.Duration {
	const longest, remembered = 100 * time.Millisecond, time.Second
	if tries > 1 {
		b.file.contended.Store(time.Now().UnixNano())
	}
	others := b.db.Stats().InUse > 0 || time.Now().UnixNano()-b.file.contended.Load() < int64(remembered)
	if !others {
		return 0
	}
	return min(held/2, longest)
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

// errCommit says that a transaction has failed when all that it consists of had been
// done: the disk may have it, or not.
var errCommit = errors.New("commit")

// on runs f in the caller's transaction, or, where db is nil, in one on the backend's
// own handle.
func (b *Backend) on(ctx context.Context, verb string, db queue.DB, f func(ctx context.Context, db queue.DB) error) error {
	kind, err := handle.Of(db)
	switch {
	case err != nil:
		return said(ctx, verb, err)
	case b.isOwn(db):
		return b.write(ctx, verb, f)
	case kind == handle.Pool:
		return b.onPool(ctx, verb, handle.PoolOf(db), f)
	}
	return b.through(ctx, verb, db, kind, f)
}

// isOwn says whether db means the backend's own handle: nil, or that handle itself.
func (b *Backend) isOwn(db queue.DB) bool { return db == nil || db == queue.DB(b.db) }

// onPool runs f in a transaction on a pool of the caller's.
func (b *Backend) onPool(ctx context.Context, verb string, pool handle.Connector, f func(ctx context.Context, db queue.DB) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return said(ctx, verb, err)
	}
	defer conn.Close()
	err = patiently(ctx, b.options.LockTimeout, func() error { return transact(ctx, conn, nil, f) })
	return said(ctx, verb, err)
}

// through runs f on the caller's transaction or connection, as part of whatever transaction
// that is in. SQLite rolls a transaction back as a whole when a writing statement of it is
// interrupted, so ctx ends the call only before and while it waits for the write lock.
func (b *Backend) through(ctx context.Context, verb string, db queue.DB, kind handle.Kind, f func(ctx context.Context, db queue.DB) error) error {
	if err := ctx.Err(); err != nil {
		return said(ctx, verb, err)
	}
	h := foreign{DB: db, tx: kind == handle.Tx, ran: new(int), waiting: ctx, timeout: b.options.LockTimeout}
	whole := context.WithoutCancel(ctx)
	if err := h.checkOpen(whole); err != nil {
		return said(ctx, verb, err)
	}
	err := f(whole, h)
	if err != nil && !h.tx && (*h.ran > 0 || isDiskError(err)) {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return said(ctx, verb, err)
}

// errPartly says that a call has failed on a handle that is no transaction, when some of its
// statements had taken effect, or may have.
var errPartly = errors.New("not in a transaction, so a part may have been done")

// said wraps an error once. One that a driver returns because ctx ended need not be ctx's.
func said(ctx context.Context, verb string, err error) error {
	err = notSetUp(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("sqlite: %s: %w: %w", verb, ctx.Err(), err)
	}
	return fmt.Errorf("sqlite: %s: %w", verb, err)
}

// microseconds is d as the tables count time, never less than d: a delay does not
// end early.
func microseconds(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// now is what the host's clock says. A time that is yet to come is one microsecond
// later than that, at least, because the clock's fraction of one is cut off.
func now() int64 { return time.Now().UnixMicro() }
