package middleware_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"testing"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Order is what the jobs of these examples are about.
type Order struct{ SKU string }

var (
	reserveStock = queue.NewKind[Order]("order.reserve")
	shipOrder    = queue.NewKind[Order]("order.ship")
)

// orderHandlers returns a program's handlers, which are written for middleware.Tx.
func orderHandlers(q queue.Enqueuer) *queue.Mux {
	mux := queue.NewMux()
	reserveStock.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, o Order) error {
		if _, err := tx.ExecContext(ctx, `UPDATE stock SET n = n - 1 WHERE sku = $1`, o.SKU); err != nil {
			return err
		}
		return q.Enqueue(ctx, tx, shipOrder.New(o))
	}))
	shipOrder.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, o Order) error {
		fmt.Println("shipped", o.SKU)
		return nil
	}))
	return mux
}

// example stands for the *testing.T of a test, in these examples.
type example struct{ testing.TB }

func (example) Helper()                  {}
func (example) Context() context.Context { return context.Background() }
func (example) Fatal(args ...any)        { log.Fatal(args...) }

// A test runs a handler that is written for Tx in a transaction of its own, which it rolls back in
// the end. The queue is in memory.
func ExampleWithTx() {
	var t example // in a test: func TestReserve(t *testing.T)
	db := openStock()
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	q := queuetest.New(queuetest.Options{})

	job := reserveStock.New(Order{SKU: "tea"})
	if err := orderHandlers(q).HandleJob(middleware.WithTx(t.Context(), tx), job); err != nil {
		t.Fatal(err)
	}

	var left int
	if err := tx.QueryRowContext(t.Context(), `SELECT n FROM stock WHERE sku = 'tea'`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	followUp := queuetest.WantJob(t, q, shipOrder, Order{SKU: "tea"}, queuetest.Through(tx))
	fmt.Println(left, "left,", followUp.Kind, "enqueued in the transaction")
	// Output: 2 left, order.ship enqueued in the transaction
}

// The whole chain runs on the queue in memory, with Tx as in the program. Here no handler needs a
// statement, so Tx gets no database either.
func ExampleTx_inMemory() {
	var t example // in a test: func TestShip(t *testing.T)
	db := queuetest.NoDatabase()
	defer db.Close()
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(t.Context(), nil, shipOrder.New(Order{SKU: "tea"})); err != nil {
		t.Fatal(err)
	}

	ran, err := q.Drain(t.Context(), queue.Chain(orderHandlers(q), middleware.Tx(db, q, middleware.TxOptions{})))
	if err != nil {
		t.Fatal(err)
	}

	job := queuetest.WantJob(t, q, shipOrder, Order{SKU: "tea"})
	fmt.Println(ran, "run,", job.Status)
	// Output:
	// shipped tea
	// 1 run, completed
}

// openStock opens a database in memory with a table stock.
func openStock() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1) // another connection would have another database
	if _, err := db.Exec(`CREATE TABLE stock AS SELECT 'tea' AS sku, 3 AS n`); err != nil {
		log.Fatal(err)
	}
	return db
}
