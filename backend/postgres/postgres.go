package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// Backend is a queue in a PostgreSQL database. It is safe for concurrent use and
// owns no goroutine and no connection but for the time of a call; calls of Listen share one of each. Besides
// [queue.Queue] it implements every optional interface of package queue.
type Backend struct {
	db       *sql.DB
	options  Options
	sql      statements
	sweep    sqlkit.Sweep
	fronts   fronts
	heard    atomic.Int64 // notifications
	sleepers sleepers
	stations stations
	reserved atomic.Int64 // connections that handlers hold
	claims   claims
	doubtful atomic.Int64 // how many jobs to claim without payloads: see claimWhole
	strict   atomic.Bool  // whether the database's default isolation level has been in the way
	silent   atomic.Bool  // whether a call got no answer from the server since the pool was last weeded
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
// worker's Run has returned. It does not touch the database; [Migrate] must have
// been run with the same Options. The error is a [*queue.InvalidError].
func New(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, sqlkit.Invalid("DB", "nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Backend{db: db, options: o, sql: loadStatements(o.Schema)}, nil
}

// on runs f on db, or, where that is nil, on the backend's own handle: then
// again, too, when the database asks for it.
func (b *Backend) on(ctx context.Context, operation string, db queue.DB, f func(queue.DB) error) error {
	kind, err := handle.Of(db)
	switch {
	case err != nil:
	case kind == handle.Own || db == queue.DB(b.db):
		b.weedSilent(ctx)
		err = retry(ctx, func() error { return b.own(ctx, f) })
		b.noteSilence(err)
	default:
		err = f(db)
	}
	return sqlkit.Wrap(ctx, "postgres", operation, notSetUp(err, b.options.Schema))
}

// own runs f on the backend's own handle: on its pool, or, where the database's default isolation level has made a statement fail before, in a
// transaction that is READ COMMITTED, for which the statements are made. Its three round trips are less than what
// is run again otherwise.
func (b *Backend) own(ctx context.Context, f func(queue.DB) error) error {
	if b.strict.Load() {
		return b.readCommitted(ctx, f)
	}
	err := f(b.db)
	if sqlState(err) == serializationFailure {
		b.strict.Store(true)
	}
	return err
}

// boundIdle has the server end the transaction of a process that has been frozen amid it: its rows stay locked until then, others' among them that it
// has looked at, which cannot be extended, settled or taken back meanwhile.
const boundIdle = "SET LOCAL idle_in_transaction_session_timeout = '1s'"

// readCommitted says [queue.ErrUnknown] where the server has not answered to the commit.
func (b *Backend) readCommitted(ctx context.Context, f func(queue.DB) error) error {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, boundIdle); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		if refused(err) {
			return err
		}
		return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
	}
	return nil
}

// retryLimit bounds how often a statement is run that the database wants run again.
const retryLimit = 20

// retry runs f until it neither fails to serialize nor deadlocks, which happens
// where the database's default isolation is stricter than read committed, nor would wait.
func retry(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == retryLimit || !wantsRetry(err) || errors.Is(err, queue.ErrUnknown) {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(time.Millisecond) << min(try, 6)))
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// uniqueViolation is the SQLSTATE of a key that another row has.
const uniqueViolation = "23505"

const (
	serializationFailure = "40001"
	deadlock             = "40P01"
	lockNotAvailable     = "55P03" // within lock_timeout
	queryCanceled        = "57014"
	idleTooLong          = "25P03" // see boundIdle
)

// errUnwaited is of a statement that has not waited for a lock that it will hardly meet again.
var errUnwaited = errors.New("postgres: would wait for a lock")

func unwaited(err error) error {
	if sqlState(err) == lockNotAvailable {
		return fmt.Errorf("%w: %w", errUnwaited, err)
	}
	return err
}

// wantsRetry says whether err is a serialization failure, a deadlock, of what was not waited for, or of a transaction that the server ended
// because nothing came from here.
func wantsRetry(err error) bool {
	code := sqlState(err)
	return code == serializationFailure || code == deadlock || code == idleTooLong || errors.Is(err, errUnwaited)
}

// sqlState returns the SQLSTATE code of err, which both drivers' errors tell, or "".
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// each runs a query and calls scan for every row.
func each(ctx context.Context, db queue.DB, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
