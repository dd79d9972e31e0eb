package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/errandhq/errand/queue"
)

// once runs f on one connection of the pool, and says [queue.ErrUnknown] where it
// failed without the server having said no.
//
// On the pool itself database/sql repeats what fails with driver.ErrBadConn, which
// lib/pq also returns for a connection that broke after the statement had been sent:
// the jobs would be written twice. On a [sql.Conn] it repeats nothing.
//
// What the driver says was never sent is tried on another connection: those that the pool
// has kept may all be broken since the server was last heard of.
func once(ctx context.Context, pool *sql.DB, f func(queue.DB) error) error {
	for try := 1; ; try++ {
		err := onConn(ctx, pool, f)
		if !unsent(err) || try == retryLimit || ctx.Err() != nil {
			return err
		}
	}
}

func onConn(ctx context.Context, pool *sql.DB, f func(queue.DB) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	err = f(conn)
	if _, later := errors.AsType[*laterError](err); later || err != nil && !refused(err) && !unsent(err) {
		return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
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
