package postgres

import (
	"context"
	"database/sql"
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
func once(ctx context.Context, pool *sql.DB, f func(queue.DB) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	err = f(conn)
	if err != nil && !refused(err) {
		return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
	}
	return err
}

// refused says whether the server has answered that nothing was written. A session
// that is ended (class 08, 57P01 and the like) may be so while it waits for a standby
// to confirm what it has committed.
func refused(err error) bool {
	code := sqlState(err)
	return code != "" && !strings.HasPrefix(code, "08") && !strings.HasPrefix(code, "57P")
}
