package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
	"github.com/errandhq/errand/queue"
)

// Reading a statement takes SQLite ten times as long as running it for one job, and its
// drivers read it anew for each call. So the hot ones are prepared; database/sql
// keeps them, for each connection, for as long as that lives.

// hotStatements are prepared statements, by their text.
type hotStatements map[string]*sql.Stmt

// prepared returns the backend's statements, which the first call prepares. The caller must not
// hold a connection: there may be no other.
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

// noConnection returns what err, from waiting for a connection, means. waiting is ctx until
// LockTimeout.
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

// ownDB is the backend's own handle.
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

// ownTx is a transaction on the backend's own handle.
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

// foreign is a handle of the caller's. Its transaction may not have the write lock yet, so each
// statement waits for it.
type foreign struct {
	queue.DB
	tx      bool            // it is a transaction, not a connection
	ran     *int            // how many statements have succeeded
	waiting context.Context // ends the wait
	timeout time.Duration
}

// errEnded says that a transaction is over although the caller has not ended it.
var errEnded = fmt.Errorf("%w: SQLite has rolled it back by itself, as it does when a statement "+
	"is interrupted or the disk is full; what was written in it before is undone", sql.ErrTxDone)

// checkOpen returns errEnded if h is a transaction that SQLite has ended by itself. database/sql
// does not notice, and each later statement would commit by itself. BEGIN tells: it fails within
// a transaction, and changes nothing there.
func (h foreign) checkOpen(ctx context.Context) error {
	if !h.tx {
		return nil
	}
	_, err := h.ExecContext(ctx, "BEGIN")
	switch {
	case sqliteerr.IsWithinTx(err):
		return nil
	case err != nil:
		return err
	}
	_, err = h.ExecContext(ctx, "ROLLBACK")
	return errors.Join(errEnded, err)
}

// withoutBusyTimeout makes statements on h return at once where another connection has the write
// lock, until restore is called. SQLite's own wait, of busy_timeout, does not end with a context. h
// is one connection.
func (h foreign) withoutBusyTimeout(ctx context.Context) (restore func(), err error) {
	var was int
	err = queryRows(ctx, h.DB, func(rows *sql.Rows) error { return rows.Scan(&was) }, "PRAGMA busy_timeout")
	if err != nil || was == 0 {
		return func() {}, err
	}
	_, err = h.ExecContext(ctx, noBusyTimeout)
	return func() {
		// It can only fail where the connection is broken.
		_, _ = h.ExecContext(ctx, setBusyTimeout(was))
	}, err
}

// errStale does not pass: the transaction keeps its old view of the data.
var errStale = errors.New("the transaction has read what another has changed since, so SQLite lets it write no more: roll it back and " +
	"begin it anew, best with the write lock from the beginning (_txlock=immediate, which sqlite.DSN sets)")

// patiently runs f, one statement, again until it gets the write lock.
func (h foreign) patiently(f func() error) error {
	const enough = 10 // a statement that is the first of its transaction can meet such a commit, too, but not each time
	stale := 0
	return writelock.RetryBusy(h.waiting, h.timeout, func() error {
		err := f()
		if err == nil {
			*h.ran++
		}
		if sqliteerr.IsStale(err) {
			if stale++; stale == enough {
				return errStale
			}
		}
		if sqliteerr.IsBusy(err) {
			if ended := h.checkOpen(context.WithoutCancel(h.waiting)); ended != nil {
				return ended
			}
		}
		return err
	})
}

// queryRows runs a query and calls scan for every row.
func queryRows(ctx context.Context, db queue.DB, scan func(*sql.Rows) error, query string, args ...any) error {
	run := func() error { return sqlkit.QueryRows(ctx, db, scan, query, args...) }
	if h, ok := db.(foreign); ok {
		return h.patiently(run)
	}
	return run()
}

// exec runs a statement that returns no rows.
func exec(ctx context.Context, db queue.DB, query string, args ...any) (result sql.Result, err error) {
	run := func() error {
		result, err = db.ExecContext(ctx, query, args...)
		return err
	}
	if h, ok := db.(foreign); ok {
		return result, h.patiently(run)
	}
	return result, run()
}
