package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
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
	id      identity // of the file when New looked at it
	restore string   // sets a connection's busy_timeout to what it was
	sweep   sqlkit.Sweep
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
	queue.TxBeginner
} = (*Backend)(nil)

// New returns the queue in db, which stays the caller's to close, after any
// worker's Run has returned. [Migrate] must have been run with the same Options before
// the first call. New looks at one connection, for at most LockTimeout: it puts the
// file in WAL mode, where it is not, and what cannot work is a
// [*queue.InvalidError], which says what to do about it: a database in memory, a
// busy_timeout of 0, and, unless Relaxed is set, a synchronous below FULL.
func New(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, sqlkit.Invalid("DB", "nil")
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
		db: db, options: o, sql: loadStatements(o.Prefix), file: fileAt(found.path), id: identify(found.path),
		restore: setBusyTimeout(found.busyTimeout),
	}, nil
}

// read runs f, which only reads, on the backend's own handle.
func (b *Backend) read(ctx context.Context, operation string, f func(db queue.DB) error) error {
	hot, err := b.prepared(ctx)
	if err == nil {
		err = b.id.check()
	}
	if err == nil {
		err = writelock.RetryBusy(ctx, b.options.LockTimeout, func() error { return f(ownDB{b.db, hot}) })
	}
	return wrap(ctx, operation, err)
}

// onHandle runs f in the caller's transaction, or, where db is nil, in one on the backend's
// own handle.
func (b *Backend) onHandle(ctx context.Context, operation string, db queue.DB, f func(ctx context.Context, db queue.DB) error) error {
	kind, err := handle.Of(db)
	switch {
	case err != nil:
		return wrap(ctx, operation, err)
	case b.isOwn(db):
		return b.write(ctx, operation, f)
	case kind == handle.Pool:
		return b.writeOn(ctx, operation, handle.PoolOf(db), nil, f)
	}
	return b.onCallersHandle(ctx, operation, db, kind, f)
}

// isOwn reports whether db means the backend's own handle: nil, or that handle itself.
func (b *Backend) isOwn(db queue.DB) bool { return db == nil || db == queue.DB(b.db) }

// onCallersHandle runs f on the caller's transaction or connection, as part of whatever transaction
// that is in. SQLite rolls a transaction back as a whole when a writing statement of it is
// interrupted, so ctx ends the call only before and while it waits for the write lock.
func (b *Backend) onCallersHandle(ctx context.Context, operation string, db queue.DB, kind handle.Kind, f func(ctx context.Context, db queue.DB) error) error {
	if err := ctx.Err(); err != nil {
		return wrap(ctx, operation, err)
	}
	if err := b.id.check(); err != nil {
		return wrap(ctx, operation, err)
	}
	h := foreign{DB: db, tx: kind == handle.Tx, ran: new(int), waiting: ctx, timeout: b.options.LockTimeout}
	whole := context.WithoutCancel(ctx)
	if err := h.checkOpen(whole); err != nil {
		return wrap(ctx, operation, err)
	}
	restore, err := func() {}, error(nil)
	if kind != handle.Unknown { // that may be a pool, each statement on another connection
		restore, err = h.withoutBusyTimeout(whole)
	}
	defer restore()
	if err == nil {
		err = f(whole, h)
	}
	if err != nil && !h.tx && (*h.ran > 0 || sqliteerr.IsDiskError(err)) {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return wrap(ctx, operation, err)
}

// errPartly says that a call has failed on a handle that is no transaction, when some of its
// statements had taken effect, or may have.
var errPartly = errors.New("not in a transaction, so a part may have been done")

// wrap names the operation in err, once.
func wrap(ctx context.Context, operation string, err error) error {
	return sqlkit.Wrap(ctx, "sqlite", operation, notSetUp(err))
}

// now is what the host's clock says. A time that is yet to come is one microsecond
// later than that, at least, because the clock's fraction of one is cut off.
func now() int64 { return time.Now().UnixMicro() }
