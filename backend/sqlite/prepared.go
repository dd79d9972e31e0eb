package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

// SQLite needs ten times as long to parse a statement as to run it for one job, and its drivers
// parse it for each call. So the frequent statements are prepared. database/sql keeps them for each
// connection until the connection closes.

// hotStatements maps the text of a statement to the prepared statement.
type hotStatements map[string]*sql.Stmt

// prepared returns the backend's prepared statements. The first call prepares them. The caller must
// not hold a connection: the pool may have no second one.
func (b *Backend) prepared(ctx context.Context) (hotStatements, error) {
	if hot := b.hot.Load(); hot != nil {
		return *hot, nil
	}
	hot := make(hotStatements)
	if err := b.awaitConnection(ctx); err != nil {
		return nil, err
	}
	err := writelock.RetryBusy(ctx, b.options.LockTimeout, func() error {
		for _, text := range b.sql.hot() {
			if hot[text] != nil {
				continue
			}
			statement, err := b.db.PrepareContext(ctx, text)
			if err != nil {
				return err
			}
			hot[text] = statement
		}
		return nil
	})
	if err != nil {
		hot.close()
		return nil, err
	}
	if !b.hot.CompareAndSwap(nil, &hot) {
		hot.close()
	}
	return *b.hot.Load(), nil
}

// awaitConnection waits for a free connection of the pool until LockTimeout.
func (b *Backend) awaitConnection(ctx context.Context) error {
	waiting, stop := context.WithTimeout(ctx, b.options.LockTimeout)
	defer stop()
	conn, err := b.db.Conn(waiting)
	if err != nil {
		return b.noConnection(ctx, waiting, err)
	}
	return conn.Close()
}

// noConnection explains err, which a wait for a connection returned. waiting is the context of that
// wait: ctx with LockTimeout.
func (b *Backend) noConnection(ctx, waiting context.Context, err error) error {
	if ctx.Err() == nil && waiting.Err() != nil {
		return fmt.Errorf("no connection of the pool has been free for %v", b.options.LockTimeout)
	}
	return err
}

func (h hotStatements) close() {
	for _, statement := range h {
		_ = statement.Close()
	}
}

// ownDB is the backend's own handle with its prepared statements.
type ownDB struct {
	*sql.DB
	hot hotStatements
}

func (o ownDB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if statement := o.hot[query]; statement != nil {
		return statement.QueryContext(ctx, args...)
	}
	return o.DB.QueryContext(ctx, query, args...)
}

// ownTx is a transaction with the prepared statements of its pool.
type ownTx struct {
	*sql.Tx
	hot hotStatements
}

func (o ownTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if statement := o.hot[query]; statement != nil {
		return o.StmtContext(ctx, statement).ExecContext(ctx, args...)
	}
	return o.Tx.ExecContext(ctx, query, args...)
}

func (o ownTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if statement := o.hot[query]; statement != nil {
		return o.StmtContext(ctx, statement).QueryContext(ctx, args...)
	}
	return o.Tx.QueryContext(ctx, query, args...)
}
