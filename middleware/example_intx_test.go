package middleware_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// Stock is the SQL of a handler, behind an interface.
type Stock interface {
	Reserve(ctx context.Context, tx *sql.Tx, sku string) error
}

// fakeStock stands for the SQL in tests.
type fakeStock struct{ reserved []string }

func (s *fakeStock) Reserve(_ context.Context, _ *sql.Tx, sku string) error {
	s.reserved = append(s.reserved, sku)
	return nil
}

// handleOrders registers a program's handlers. Those that need q for more than enqueueing, as Tx
// does, get it here.
func handleOrders(mux *queue.Mux, db *sql.DB, q queue.Queue, stock Stock) {
	inTx := middleware.Tx(db, q, middleware.TxOptions{})
	reserveStock.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, o Order) error {
		if err := stock.Reserve(ctx, tx, o.SKU); err != nil {
			return err
		}
		return q.Enqueue(ctx, tx, shipOrder.New(o))
	}), inTx)
	shipOrder.Handle(mux, func(ctx context.Context, job *queue.Job, o Order) error {
		fmt.Println("shipped", o.SKU)
		return nil
	})
}

// A handler of Tx that runs SQL is tested without a database: its SQL is behind an interface. The
// jobs run inline, and the handlers are registered after the queue is made, because they use it.
func ExampleInTx() {
	var t example // in a test: func TestReserve(t *testing.T)
	db := queuetest.NoDatabase()
	defer db.Close()
	stock := &fakeStock{}
	mux := queue.NewMux()
	q := queuetest.New(queuetest.Options{Inline: queue.Chain(mux, middleware.Recover)})
	handleOrders(mux, db, q, stock)

	if err := q.Enqueue(t.Context(), nil, reserveStock.New(Order{SKU: "tea"})); err != nil {
		t.Fatal(err)
	}

	job := queuetest.WantJob(t, q, shipOrder, Order{SKU: "tea"})
	fmt.Println("reserved", stock.reserved, "and", job.Kind, "is", job.Status)
	// Output:
	// shipped tea
	// reserved [tea] and order.ship is completed
}
