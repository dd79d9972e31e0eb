package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// run runs f on db: every operation's statements go through here. A transaction or a connection of
// the caller's runs f once. A pool, the backend's own (nil) or the caller's, runs it on one
// connection, and again where shouldRetry says so, so each call of f must begin anew. The error
// names the operation.
func (b *Backend) run(ctx context.Context, operation string, db queue.DB, f func(queue.DB) error) error {
	pool, err := b.poolOf(db)
	switch {
	case err != nil:
	case pool != nil:
		for try, again := 1, true; again; try++ {
			b.health.dropDeadConns(ctx, b.db)
			err = b.onOneConn(ctx, pool, f)
			b.health.note(err)
			again, err = awaitRetry(ctx, try, err)
		}
	default:
		err = ctx.Err()
		if conn, isConn := db.(rawConn); err == nil && isConn {
			err = onCallersConn(ctx, conn, f)
		} else if err == nil {
			err = f(db)
		}
	}
	return sqlkit.Wrap(ctx, "postgres", operation, notSetUp(explainUsedID(err, b.options.Schema), b.options.Schema, operation))
}

// poolOf returns the pool to run statements on, or nil where db is a transaction or a connection.
func (b *Backend) poolOf(db queue.DB) (handle.Connector, error) {
	kind, err := handle.Of(db)
	switch {
	case err != nil:
		return nil, err
	case kind == handle.Own:
		return b.db, nil
	case kind == handle.Pool:
		return handle.PoolOf(db), nil
	}
	return nil, nil
}

// retryLimit bounds how often a statement runs that fails in a way that a retry may mend.
const retryLimit = 20

// withRetry runs f until it succeeds, or fails in a way that a retry does not mend.
func withRetry(ctx context.Context, f func() error) (err error) {
	for try, again := 1, true; again; try++ {
		again, err = awaitRetry(ctx, try, f())
	}
	return err
}

// awaitRetry reports whether to run a statement again whose run number try has ended with err, and
// waits until then. It returns the error to return otherwise.
func awaitRetry(ctx context.Context, try int, err error) (again bool, _ error) {
	switch {
	case try == retryLimit || ctx.Err() != nil || !shouldRetry(err):
		return false, err
	case isUnsent(err): // the next connection of the pool may work
		return true, err
	}
	if ended := pause(ctx, time.Duration(rand.Int64N(int64(time.Millisecond)<<min(try, 6)))); ended != nil {
		return false, errors.Join(ended, err)
	}
	return true, err
}

// shouldRetry reports whether another run may succeed after err, and cannot write a job twice. A
// [queue.ErrUnknown] is never retried: the first run may have written jobs. All other statements
// may run again after a connection broke, because rows that they have changed do not match them any
// more.
func shouldRetry(err error) bool {
	if err == nil || errors.Is(err, queue.ErrUnknown) {
		return false
	}
	switch sqlState(err) {
	case serializationFailure, deadlock, idleTooLong:
		return true
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, errLockBusy) || isUnsent(err)
}

// onOneConn runs f on one connection of the pool. It runs in a transaction of its own once the
// database's default isolation level has made a statement fail, and where the driver needs two
// round trips for a statement, as lib/pq does (see roundTrips).
//
// On the pool itself database/sql repeats a statement after driver.ErrBadConn. But lib/pq, and pgx
// in its simple protocol, also return that for a connection that broke after the statement was
// sent: jobs would be written twice, and a claim whose answer was lost would go unnoticed.
func (b *Backend) onOneConn(ctx context.Context, pool handle.Connector, f func(queue.DB) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return explainNoConn(pool, err)
	}
	defer conn.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	needsTx, err := b.trips.needsTx(ctx, pool, conn)
	if err != nil {
		return err
	}
	if needsTx || b.strict.Load() {
		return readCommitted(ctx, conn, f)
	}
	err = f(conn)
	if sqlState(err) == serializationFailure {
		b.strict.Store(true)
	}
	return err
}

// queryRows runs a query on one connection of the backend's own pool, once, and calls scan for
// every row.
func (b *Backend) queryRows(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	return b.onOneConn(ctx, b.db, func(db queue.DB) error { return sqlkit.QueryRows(ctx, db, scan, query, args...) })
}

// limitIdleTx makes the server abort our transaction if this process freezes inside it. Until then
// no other process can extend, settle or reclaim the rows that it has locked.
const limitIdleTx = "SET LOCAL idle_in_transaction_session_timeout = '1s'"

// readCommitted runs f in a READ COMMITTED transaction, for which the statements are made. The
// transaction's three round trips cost less than running statements again that fail to serialize.
// The error is [queue.ErrUnknown] where the server has not answered to the commit.
func readCommitted(ctx context.Context, conn rawConn, f func(queue.DB) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, limitIdleTx); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		if isRefused(err) {
			return err
		}
		return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
	}
	return nil
}

// readAll runs a query on the backend's own handle, and returns what scan reads of each row.
func readAll[T any](
	ctx context.Context, b *Backend, operation string, scan func(*sql.Rows, *T) error, query string, args ...any,
) (all []T, err error) {
	err = b.run(ctx, operation, nil, func(db queue.DB) error {
		all, err = sqlkit.QueryAll(ctx, db, scan, query, args...)
		return err
	})
	return all, err
}

// queryIDs runs a query whose rows are ids.
func (b *Backend) queryIDs(ctx context.Context, operation string, db queue.DB, query string, args ...any) (ids []int64, err error) {
	err = b.run(ctx, operation, db, func(db queue.DB) error {
		ids = nil
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, query, args...)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// pause waits for d. It returns ctx's error if ctx ends before that.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
