// Bun shows errand with bun:
//
//	go run ./examples/bun
//
// Package demo has the story, the tables and the worker.
package main

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/queue"
)

func main() { demo.Main(open) }

// Order is a row of the table orders.
type Order struct {
	ID       int64 `bun:",pk,autoincrement"`
	Customer string
}

// Receipt is a row of the table receipts.
type Receipt struct {
	OrderID int64 `bun:",pk"`
}

// shop is the application: its database, and the queue in it.
type shop struct {
	db   *bun.DB
	pool *sql.DB // what db is built on
	q    *postgres.Backend
}

// open opens the database, and the queue over the same pool of connections.
func open(dsn string) (demo.Shop, error) {
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	q, err := postgres.New(pool, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{bun.NewDB(pool, pgdialect.New()), pool, q}, err
}

func (s *shop) Queue() queue.Queue { return s.q }

func (s *shop) Close() { s.pool.Close() }

// PlaceOrder writes the order and its job, or neither. Enqueue gets tx.Tx, the *sql.Tx within,
// because bun's own methods read every query as one of bun's.
func (s *shop) PlaceOrder(ctx context.Context, customer string) error {
	return s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		order := Order{Customer: customer}
		if _, err := tx.NewInsert().Model(&order).Exec(ctx); err != nil {
			return err
		}
		if err := s.q.Enqueue(ctx, tx.Tx, demo.SendReceipt.New(demo.Receipt{OrderID: order.ID})); err != nil {
			return err
		}
		return demo.Pay(customer) // an error rolls back both
	})
}

// SendReceipt writes the receipt and ends its job, or neither.
func (s *shop) SendReceipt(ctx context.Context, job *queue.Job, r demo.Receipt) error {
	err := s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		lost, err := s.q.Settle(ctx, tx.Tx, queue.Outcome{Job: job, Action: queue.Done})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			return queue.ErrLost // another worker has the job
		}
		if _, err := tx.NewInsert().Model(&Receipt{OrderID: r.OrderID}).Exec(ctx); err != nil {
			return err
		}
		return demo.Print(r.OrderID, job.Attempt) // an error rolls back both, and the job runs again
	})
	if err != nil {
		return err
	}
	return queue.ErrSettled // the worker has nothing left to do
}
