package middleware

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TxOptions configure [Tx]. The zero value works.
type TxOptions struct {
	// SQL is passed to BeginTx; nil means the database's defaults.
	SQL *sql.TxOptions
	// SettleFirst settles the job before the handler runs instead of after it. The job's row is
	// then locked, so the job cannot be lost while the transaction is open. The transaction may be
	// REPEATABLE READ or SERIALIZABLE even if the handler outlasts a heartbeat. The price: a
	// process that freezes, or whose connection breaks unnoticed, keeps its job until the server
	// ends the transaction (see idle_in_transaction_session_timeout).
	//
	// SettleFirst also frees the job's Key: the handler may enqueue the next job with that Key in
	// the transaction. Without SettleFirst, Enqueue returns an error there. A handler that calls
	// [queue.SetOutput] fails with SettleFirst: the job is settled already.
	SettleFirst bool
}

// Tx runs each job in a transaction that also settles it, so what the handler writes in it happens
// exactly once, however often the job is delivered. Tx begins the transaction, hands it to the
// handler ([InTx], [TxFrom]), settles the job as done behind its fence, commits, and returns
// [queue.ErrSettled]. Jobs that the handler enqueues in the transaction appear when it commits.
//
// If the handler returns an error or panics, Tx rolls back and passes the error or panic on. If
// somebody has cancelled the job meanwhile, Tx rolls back, whatever the handler returns, and the
// error contains [queue.ErrCancelled]. If the worker no longer holds the job, Tx rolls back and
// returns [queue.ErrLost]. A handler that returns
// [queue.ErrSettled] has settled the job itself in this transaction: Tx commits. A commit whose
// connection broke may have happened; then the job is completed, and the worker's retry changes
// nothing. A process that freezes inside the transaction keeps its job until the server ends the
// transaction.
//
// q is the queue that the job was claimed from, in the same database as db. The transaction ends
// with the handler's context: after its Timeout nothing is written. The server has ten seconds each
// to begin, settle, commit and roll back, so a connection that the network has swallowed does not
// keep the job for ever. The handler's own statements end with its Timeout.
//
// Tx holds a connection for as long as the handler runs, so db needs one for each of the worker's
// Concurrency, and a few more. A worker whose pool has too few does not start ([queue.ConnHolder]).
//
// The heartbeat changes the job's row. A REPEATABLE READ or SERIALIZABLE transaction that began
// before a heartbeat cannot settle the job after it; PostgreSQL reports a serialization failure.
// Set SettleFirst if handlers may take a third of the lease or longer.
//
// SQLite has one write lock. One handler runs at a time there, whatever the worker's Concurrency;
// the others wait for their turn within their Timeout. Between handlers the worker extends its
// leases ([driver.TxBeginner]), so handlers that take less than a third of the lease lose none.
//
// SQLite may end a transaction itself while the handler runs: when a writing statement is
// interrupted, or the disk is full. Then the job is not completed, and Tx returns an error whatever
// the handler returns. But what the handler writes after such a statement takes effect at once. So
// a handler must return when a statement has failed.
//
// Tx panics if db or q is nil.
func Tx(db *sql.DB, q queue.Consumer, o TxOptions) queue.Middleware {
	if db == nil {
		panic("middleware: Tx: db is nil")
	}
	if _, ok := driver.As[queue.Consumer](q); !ok {
		panic("middleware: Tx: q is nil")
	}
	return func(next queue.Handler) queue.Handler {
		return txHandler{db, next, queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			tx, err := begin(ctx, db, q, o.SQL)
			if err != nil {
				return handling.ChainFault(fmt.Errorf("middleware: Tx: begin: %w", err))
			}
			defer tx.end()
			defer func() { _ = awaitAnswer(tx.abandon, tx.Rollback) }() // also when the handler panics; does nothing after Commit
			if err := o.run(WithTx(ctx, tx.Tx), tx.Tx, q, next, job); err != nil {
				return err
			}
			if err := awaitAnswer(tx.abandon, tx.Commit); err != nil {
				return txError(ctx, "commit", err)
			}
			return queue.ErrSettled
		})}
	}
}

// txHandler tells the worker which pool each of its runs holds a connection of.
type txHandler struct {
	db   *sql.DB
	next queue.Handler
	queue.Handler
}

// Unwrap returns the handler within.
func (h txHandler) Unwrap() queue.Handler { return h.next }

// HoldsConn implements [queue.ConnHolder].
func (h txHandler) HoldsConn() *sql.DB { return h.db }

const (
	// answerTimeout is how long the server has to answer. If the network has swallowed the
	// connection, it never does.
	answerTimeout = 10 * time.Second
	// obeyTimeout is how long a driver has to return after its context has ended. lib/pq does not
	// return while it reads.
	obeyTimeout = time.Second
)

var errSilent = errors.New("the database has not answered for 10 s")

// awaitAnswer runs f, which waits for the server. After answerTimeout it calls abandon, which ends
// the context of f. If f does not return then either, awaitAnswer leaves it behind: the operating
// system ends its connection, and with it f, minutes later.
func awaitAnswer(abandon func(), f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- queue.RecoveredPanic(v)
			}
		}()
		done <- f()
	}()
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	abandon()
	timer.Reset(obeyTimeout)
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%w: %w", errSilent, err)
		}
		return nil
	case <-timer.C:
		return errSilent
	}
}

// openTx is a transaction, the function that ends its context, and the function to call when it is
// over.
type openTx struct {
	*sql.Tx
	abandon, end func()
}

// begin begins a transaction. If the queue's writers take turns, it waits for its turn.
func begin(ctx context.Context, db *sql.DB, q queue.Consumer, o *sql.TxOptions) (openTx, error) {
	b, ok := driver.As[driver.TxBeginner](q)
	if !ok {
		return beginOnServer(ctx, db, o)
	}
	ctx, cancel := context.WithCancel(ctx)
	tx, end, err := b.BeginTx(ctx, db, o)
	if err != nil {
		cancel()
		return openTx{}, err
	}
	return openTx{tx, cancel, func() { cancel(); end() }}, nil
}

// beginOnServer begins a transaction. If a connection does not answer, it takes another one.
func beginOnServer(ctx context.Context, db *sql.DB, o *sql.TxOptions) (openTx, error) {
	for {
		own, abandon := context.WithCancel(ctx)
		var tx *sql.Tx
		err := awaitAnswer(abandon, func() (err error) {
			tx, err = db.BeginTx(own, o)
			return err
		})
		switch {
		case err == nil && own.Err() == nil:
			return openTx{tx, abandon, abandon}, nil
		case err == nil:
			_ = tx.Rollback() // it has ended with its context
			err = errSilent
		}
		abandon()
		switch {
		case ctx.Err() != nil:
			return openTx{}, ctx.Err()
		case !errors.Is(err, errSilent):
			return openTx{}, err
		}
	}
}

// run runs the handler in the transaction and settles the job. If it returns nil, the transaction
// is committed.
func (o TxOptions) run(ctx context.Context, tx *sql.Tx, q queue.Consumer, next queue.Handler, job *queue.Job) error {
	if o.SettleFirst {
		if err := settle(ctx, tx, q, job); err != nil {
			return handling.ChainFault(err)
		}
	} else {
		ctx = handle.WithOwnKey(ctx, job)
	}
	err := next.HandleJob(ctx, job)
	switch {
	case errors.Is(err, queue.ErrSettled):
		return nil
	case err == nil && o.SettleFirst && queue.OutputOf(ctx) != nil:
		return errSettledFirst
	case err != nil || o.SettleFirst:
		return err
	}
	return settle(ctx, tx, q, job)
}

var errSettledFirst = handling.ChainFault(errors.New(
	"middleware: Tx: rolled back: SetOutput within Tx with SettleFirst, which has settled the job already"))

func settle(ctx context.Context, tx *sql.Tx, q queue.Consumer, job *queue.Job) error {
	own, abandon := context.WithCancel(ctx)
	defer abandon()
	var lost []*queue.Job
	err := awaitAnswer(abandon, func() (err error) {
		lost, err = q.Settle(own, tx, queue.Outcome{Job: job, Action: queue.Done, Output: queue.OutputOf(ctx)})
		return err
	})
	if err != nil {
		return txError(ctx, "settle", err)
	}
	if len(lost) > 0 {
		return handling.ChainFault(fmt.Errorf("middleware: Tx: rolled back: %w", queue.ErrLost))
	}
	return nil
}

// txError returns the error of a step of Tx. If ctx has ended, the transaction has ended with it:
// then the error is the handler's, which has outlasted its time. It contains [queue.ErrCancelled]
// if somebody has cancelled the job. The error is the handler's, too, if the database refuses what
// it has written.
func txError(ctx context.Context, step string, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), queue.ErrCancelled):
		return fmt.Errorf("middleware: Tx: %s: %w: %w", step, queue.ErrCancelled, err)
	case ctx.Err() != nil || refusesWrites(err):
		return fmt.Errorf("middleware: Tx: %s: %w", step, err)
	}
	return handling.ChainFault(fmt.Errorf("middleware: Tx: %s: %w", step, err))
}

// refusesWrites reports whether PostgreSQL will not commit what the handler has written: one of its
// statements failed, and the handler passed over that; or a constraint is checked at the end.
func refusesWrites(err error) bool {
	const failedTransaction, integrity = "25P02", "23" // SQLSTATE, and a class of them
	s, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && (s.SQLState() == failedTransaction || strings.HasPrefix(s.SQLState(), integrity))
}

type txKey struct{}

// WithTx returns a context in which [TxFrom] and [InTx] find tx, as in the context of [Tx]. It is
// for tests that call a handler without a worker, and for middleware of your own in place of Tx. It
// does no more: the caller ends tx, and settles the job or not. It panics if tx is nil.
//
//	err := mux.HandleJob(middleware.WithTx(t.Context(), tx), job)
func WithTx(ctx context.Context, tx *sql.Tx) context.Context {
	if tx == nil {
		panic("middleware: WithTx: tx is nil")
	}
	return context.WithValue(ctx, txKey{}, tx)
}

// TxFrom returns the transaction that [Tx] has begun for this job. ok is false outside of Tx. The
// handler must not commit it or roll it back.
func TxFrom(ctx context.Context) (tx *sql.Tx, ok bool) {
	tx, ok = ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}

// errNoTx is not the job's fault: the job is retried, and runs once the chain is mended.
var errNoTx = handling.ChainFault(errors.New("no transaction in the context: the chain needs Tx outside of this"))

// InTx turns a function that also takes the transaction of [Tx] into one for [queue.Kind.Handle].
// Outside of Tx the result returns an error and does not call fn.
//
//	WelcomeEmail.Handle(mux, middleware.InTx(
//		func(ctx context.Context, tx *sql.Tx, job *queue.Job, w Welcome) error {
func InTx[T any](fn func(ctx context.Context, tx *sql.Tx, job *queue.Job, v T) error) func(context.Context, *queue.Job, T) error {
	return func(ctx context.Context, job *queue.Job, v T) error {
		tx, ok := TxFrom(ctx)
		if !ok {
			return fmt.Errorf("middleware: InTx: %w", errNoTx)
		}
		return fn(ctx, tx, job, v)
	}
}
