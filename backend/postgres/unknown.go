package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// through runs f, which writes jobs, on db, and sends no statement of it twice. Its error is
// [queue.ErrUnknown] where db is no transaction and the server has not said no.
func through(ctx context.Context, db queue.DB, f func(queue.DB) error) error {
	kind, err := handle.Of(db)
	switch {
	case err != nil:
		return err
	case kind == handle.Pool:
		return once(ctx, handle.PoolOf(db), f)
	case kind == handle.Conn:
		if err := ctx.Err(); err != nil {
			return err
		}
		return unlessRefused(f(db))
	case kind == handle.Unknown:
		if err := checkInTx(ctx, db); err != nil {
			return err
		}
	}
	return f(db)
}

// once runs f on one connection of the pool, and says [queue.ErrUnknown] where it
// failed without the server having said no.
//
// On the pool itself database/sql repeats what fails with driver.ErrBadConn, which
// lib/pq, and pgx in its simple protocol, also return for a connection that broke after the
// statement had been sent: the jobs would be written twice. On a [sql.Conn] it repeats nothing.
//
// What the driver says was never sent is tried on another connection: those that the pool
// has kept may all be broken since the server was last heard of.
func once(ctx context.Context, pool handle.Connector, f func(queue.DB) error) error {
	for try := 1; ; try++ {
		err := onConn(ctx, pool, f)
		if !unsent(err) || try == retryLimit || ctx.Err() != nil {
			return err
		}
	}
}

// autocommit is a connection of a pool's that is in no transaction: each statement is one.
type autocommit struct{ *sql.Conn }

func onConn(ctx context.Context, pool handle.Connector, f func(queue.DB) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err = f(autocommit{conn}); unsent(err) {
		return err
	}
	return unlessRefused(err)
}

// unlessRefused says [queue.ErrUnknown] of a failed write, unless the server has refused it.
func unlessRefused(err error) error {
	_, later := errors.AsType[*laterError](err)
	_, invalid := errors.AsType[*queue.InvalidError](err)
	if err == nil || !later && (invalid || refused(err)) {
		return err
	}
	return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
}

// inTx is a statement that fails outside of a transaction, and needs no right. The lock conflicts
// with nothing that anybody does to that table.
const inTx = "LOCK TABLE pg_catalog.pg_language IN ACCESS SHARE MODE"

// checkInTx asks the server whether db is in a transaction, and returns a [*queue.InvalidError] if
// it is not.
func checkInTx(ctx context.Context, db queue.DB) error {
	const noActiveTransaction = "25P01"
	_, err := db.ExecContext(ctx, inTx)
	if sqlState(err) == noActiveTransaction {
		return sqlkit.Invalid("DB", "%T is not in a transaction, and shows no connection: pass nil, a transaction, or a pool that has Conn", db)
	}
	return err
}

// unsent says whether the driver knows that nothing has reached the server. pgx does.
func unsent(err error) bool {
	var s interface{ SafeToRetry() bool }
	return errors.As(err, &s) && s.SafeToRetry()
}

// laterError is of a statement that others have come before, which have written: whether
// it has been sent itself is not all there is to know.
type laterError struct{ error }

func (*laterError) SafeToRetry() bool { return false }

func (e *laterError) Unwrap() error { return e.error }

// refused says whether the server has answered that nothing was written. A session
// that is ended (class 08, 57P01 and the like) may be so while it waits for a standby
// to confirm what it has committed.
func refused(err error) bool {
	code := sqlState(err)
	return code != "" && !strings.HasPrefix(code, "08") && !strings.HasPrefix(code, "57P")
}
