package pgxadapter

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// Handle is what pgx runs statements on. *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn and every [pgx.Tx]
// are one, and so is the DBTX that sqlc generates.
type Handle interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Tx makes tx a [queue.DB], for Enqueue, Settle and ClaimTx. Their writes take effect when the
// caller commits tx. If tx is nested in another transaction (a savepoint), the outer one must
// commit, too. Tx itself runs nothing, so it may be called anew each time.
//
// Errors are pgx's own: errors.As finds a [*pgconn.PgError]. Arguments are pgx's to encode, in any
// of its query modes, and values come in the types of pgx/v5/stdlib. Rows must be closed before the
// next statement. With a nil tx the methods return a [*queue.InvalidError]. Like tx, it is not for
// concurrent use.
func Tx(tx pgx.Tx) queue.DB { return transaction{adapter{tx}, handle.IsTx{}} }

// DB makes h a [queue.DB], as [Tx] does, for code that takes a pool, a connection or a transaction
// alike. Through a pool, or a connection that is in no transaction, each call takes effect at once.
// If its answer is lost, Enqueue returns [queue.ErrUnknown]. ClaimTx refuses such handles. It may
// be used concurrently if h may.
func DB(h Handle) queue.DB {
	if tx, ok := h.(pgx.Tx); ok {
		return Tx(tx)
	}
	return connection{adapter{h}, handle.IsConn{}}
}

// transaction and connection tell the backend what the handle is.
type (
	transaction struct {
		adapter
		handle.IsTx
	}
	connection struct {
		adapter
		handle.IsConn // pgx sends a statement once, through a pool, too
	}
)

type adapter struct{ handle Handle }

// ExecContext implements [queue.DB].
func (a adapter) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	tag, err := a.handle.Exec(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// QueryContext implements [queue.DB]. Only database/sql can make a *sql.Rows, so it is given a
// database whose one connection is the handle. Closing that at once ends its goroutine and leaves
// the rows alone. pgx notices when ctx ends. database/sql would close the rows in a goroutine of
// its own, while the caller may be using the transaction again.
func (a adapter) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	db := sql.OpenDB(conn{ctx, a.handle})
	rows, err := db.QueryContext(context.WithoutCancel(ctx), query, args...)
	db.Close()
	return rows, err
}

// check finds a nil handle, bare or in an interface.
func (a adapter) check() error {
	v := reflect.ValueOf(a.handle)
	if v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return nil
	}
	return &queue.InvalidError{Field: "DB", Problem: fmt.Sprintf("a nil pgx handle (%T): pass nil itself for the backend's own handle", a.handle)}
}
