// Package pgxadapter lets errand work in a transaction of native pgx.
//
//	tx, err := pool.Begin(ctx)
//	// The business write goes through tx itself.
//	err = q.Enqueue(ctx, pgxadapter.Tx(tx), job)
//	lost, err := q.Settle(ctx, pgxadapter.Tx(tx), queue.Outcome{Job: job, Action: queue.Done})
//	err = tx.Commit(ctx)
//
// The queue itself wants a *sql.DB, which pgx makes of the pool that there is:
//
//	db := stdlib.OpenDBFromPool(pool)
//	db.SetMaxOpenConns(int(pool.Config().MaxConns))
//	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
//
// Both then share the pool's connections. A worker that listens keeps one of them to itself, so the
// pool needs at least two, and another for each handler that has a transaction open. A worker
// checks only the limit of SetMaxOpenConns when it starts. The example shows a whole program.
package pgxadapter
