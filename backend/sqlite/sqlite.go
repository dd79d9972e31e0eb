package sqlite

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/backend/internal/clockwatch"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Backend is a queue in a SQLite database. It is safe for concurrent use. It owns goroutines and
// connections only during a call. A call that gives up waiting for another process leaves one
// goroutine behind until that process releases the file. Besides [queue.Queue] it implements every
// optional interface of package driver except for [driver.Served], which is for backends without
// tables, and [driver.DeathTeller] and [driver.Upkeeper], which it does not
// need.
type Backend struct {
	db      *sql.DB
	options Options
	sql     statements
	file    *file
	id      identity // of the file when New looked at it
	sweep   sqlkit.Sweep
	ticks   sqlkit.Ticks
	hot     atomic.Pointer[hotStatements] // nil until they are needed
	turns   turns
	rules   rules
	badRows badRows
	clock   clockwatch.Watch // of this machine, for reclaiming
	polled  atomic.Int64     // when Listen last looked into the file, as UnixNano

	restoreTimeout string // the statement that restores a connection's busy_timeout
}

var _ queue.Queue = (*Backend)(nil)

// New returns the queue in db. The caller closes db, after the Run of each worker has returned.
// [Migrate] must have been run with the same Options before the first call.
//
// New uses one connection for at most LockTimeout, and for a moment a second one: it reads the
// settings, and puts the file in WAL mode. It returns a [*queue.InvalidError] for a setting that
// cannot work: a database in memory, a busy_timeout of 0, a synchronous below FULL unless Relaxed
// is set, locking_mode(EXCLUSIVE), cache=shared, or parameters that set another journal mode on
// each connection. The error says what to do.
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
	s, err := ensureWAL(ctx, db, o)
	if err != nil {
		return nil, err
	}
	if err := s.check(o); err != nil {
		return nil, err
	}
	return &Backend{
		db: db, options: o, sql: loadStatements(o.Prefix), file: fileAt(s.path), id: identify(s.path),
		restoreTimeout: setBusyTimeout(s.busyTimeout),
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

// onHandle runs f on db: in the caller's transaction, or in a new one if db is a pool. If db is
// nil, the new transaction is on the backend's own handle.
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

// queryRows runs a query and calls scan for every row.
func queryRows(ctx context.Context, db queue.DB, scan func(*sql.Rows) error, query string, args ...any) error {
	run := func() error { return sqlkit.QueryRows(ctx, db, scan, query, args...) }
	if h, ok := db.(callerHandle); ok {
		return h.retryBusy(run)
	}
	return run()
}

// queryAll runs a query, and returns what scan reads of each row.
func queryAll[T any](ctx context.Context, db queue.DB, scan func(*sql.Rows, *T) error, query string, args ...any) (all []T, err error) {
	run := func() error {
		all, err = sqlkit.QueryAll(ctx, db, scan, query, args...)
		return err
	}
	if h, ok := db.(callerHandle); ok {
		return all, h.retryBusy(run)
	}
	return all, run()
}

// readAll runs a query on the backend's own handle, and returns what scan reads of each row.
func readAll[T any](
	ctx context.Context, b *Backend, operation string, scan func(*sql.Rows, *T) error, query string, args ...any,
) (all []T, err error) {
	err = b.read(ctx, operation, func(db queue.DB) error {
		all, err = queryAll(ctx, db, scan, query, args...)
		return err
	})
	return all, err
}

// exec runs a statement that returns no rows.
func exec(ctx context.Context, db queue.DB, query string, args ...any) (result sql.Result, err error) {
	run := func() error {
		result, err = db.ExecContext(ctx, query, args...)
		return err
	}
	if h, ok := db.(callerHandle); ok {
		return result, h.retryBusy(run)
	}
	return result, run()
}

// wrap names the operation in err, once.
func wrap(ctx context.Context, operation string, err error) error {
	return sqlkit.Wrap(ctx, "sqlite", operation, notSetUp(err))
}

// now returns the host's time, truncated to microseconds. So a time that must lie in the future is
// now plus at least one microsecond.
func now() int64 { return time.Now().UnixMicro() }

// Tables implements [driver.Tabled].
func (b *Backend) Tables() driver.Tables {
	return driver.Tables{
		DB: b.db, Dialect: "sqlite", Schema: b.options.Prefix, Retention: b.options.Retention,
		Version: lastVersion(),
	}
}
