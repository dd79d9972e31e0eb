package driver

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/queue"
)

// TxClaimer is a backend that can claim a job without a lease, in the transaction that does the
// work.
type TxClaimer interface {
	// ClaimTx claims one job within tx, the caller's transaction. The commit completes the job. It
	// returns nil if no job is due. It does not use req.Lease, req.Limit and req.Worker, which may
	// be zero. The job is locked, and invisible to other claims, until the transaction ends, also
	// if it is a prepared one. If tx is not a transaction, or does not show that it is one (see
	// [queue.DB]), the error is an [*queue.InvalidError].
	//
	// To record that the work has failed, settle the job in the same transaction, with Retry, Dead
	// or Release, and commit. If the work has written something, set a savepoint after ClaimTx and
	// roll back to it first. Then the attempt counts, and MaxAttempts holds.
	//
	// After a rollback or a crash the job is pending again at once, as if it had never been
	// claimed. That counts no attempt, and nothing limits how often it happens: a job that ends its
	// process is claimed again each time. If jobs may do that, use Claim, which has a lease. After
	// the end of the transaction nobody holds the job, and Settle reports it lost.
	ClaimTx(ctx context.Context, tx queue.DB, req queue.ClaimRequest) (*queue.Job, error)
}

// TxBeginner is a backend whose database lets only one transaction write at a time, as SQLite does.
// Calls of the backend that write take turns. A handler's transaction takes a turn with BeginTx.
// Then no call of the backend competes with it for the database's lock, and Extend has its turn
// before the next such transaction.
type TxBeginner interface {
	// BeginTx waits for its turn, at most until ctx ends, and begins a transaction on db. db is a
	// handle of the backend's database, or nil for the backend's own. As with [sql.DB.BeginTx], the
	// transaction ends with ctx. end ends the turn: call it after the commit or the rollback. It
	// rolls back a transaction that is still open, and further calls of it do nothing. Until end is
	// called, calls of the backend that write wait, except through tx.
	BeginTx(ctx context.Context, db *sql.DB, o *sql.TxOptions) (tx *sql.Tx, end func(), err error)
}

// Pooled is a backend that takes its connections from the caller's [sql.DB], which may limit them.
type Pooled interface {
	// Reserve notes that the handlers of a worker may hold n connections of each of dbs at once, until
	// the caller calls release. It returns how many connections are then left for calls of the
	// backend, without the listener's connection and the connections that other workers of this
	// backend have reserved. Below 1 means none. It does not wait, and may be called concurrently.
	Reserve(n int, dbs ...*sql.DB) (left int, release func())
}
