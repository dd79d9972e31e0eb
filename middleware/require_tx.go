package middleware

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// RequireTx is a [queue.EnqueueMiddleware] for programs that always enqueue in a transaction. If
// the handle is not one, Enqueue returns a [*queue.InvalidError] and writes nothing:
//
//	enqueuer := queue.ChainEnqueuer(q, middleware.RequireTx)
//
// A transaction is a handle with the methods Commit and Rollback: *sql.Tx, *sqlx.Tx, gorm's
// Statement.ConnPool within a transaction, ent's Tx, and what pgxadapter.Tx returns. RequireTx
// refuses nil, which means the queue's own handle, and every pool and connection.
//
// It also refuses a *sql.Conn on which the program has run BEGIN itself. Nothing tells RequireTx of
// that BEGIN, nor of the COMMIT after it. Begin with the connection's BeginTx instead, or wrap the
// connection in a type of your own with Commit and Rollback.
//
// RequireTx cannot tell whether a transaction has ended, or belongs to another database.
func RequireTx(next queue.Enqueuer) queue.Enqueuer {
	return queue.EnqueuerFunc(func(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
		kind, err := handle.Of(db)
		switch {
		case err != nil:
			return &queue.InvalidError{Field: "DB", Problem: fmt.Sprintf("a nil %T: %s", db, wantTx)}
		case kind != handle.Tx:
			return &queue.InvalidError{Field: "DB", Problem: notTx(kind, db)}
		}
		return next.Enqueue(ctx, db, jobs...)
	})
}

const wantTx = "RequireTx wants the caller's transaction"

// notTx says what the caller has passed in place of a transaction.
func notTx(kind handle.Kind, db queue.DB) string {
	switch kind {
	case handle.Own:
		return "nil, which means the queue's own handle: " + wantTx
	case handle.Pool:
		return fmt.Sprintf("a %T, which is a pool: %s", db, wantTx)
	case handle.Conn:
		return fmt.Sprintf("a %T, which does not show that it is in a transaction: %s", db, wantTx)
	default:
		return fmt.Sprintf("a %T, which has no Commit and Rollback: %s", db, wantTx)
	}
}
