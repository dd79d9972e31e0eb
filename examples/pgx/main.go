// Pgx shows errand with native pgx, through package pgxadapter:
//
//	go run ./examples/pgx
//
// Package demo has the story, the tables and the worker.
package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/queue"
)

func main() { demo.Main(open) }

// shop is the application: its pool of connections, and the queue over it.
type shop struct {
	pool *pgxpool.Pool
	db   *sql.DB // the same connections, as database/sql has them
	q    *postgres.Backend
}

// open opens the pool, and the queue over it. The queue borrows a connection for the time of a
// call; its worker keeps one, on which it listens.
func open(dsn string) (demo.Shop, error) {
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	db.SetMaxOpenConns(int(pool.Config().MaxConns)) // so that a worker can check its share at start
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{pool, db, q}, err
}

func (s *shop) Queue() queue.Queue { return s.q }

func (s *shop) Close() {
	s.db.Close()
	s.pool.Close()
}

// PlaceOrder writes the order and its job, or neither.
func (s *shop) PlaceOrder(ctx context.Context, customer string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id int64
		if err := tx.QueryRow(ctx, `INSERT INTO orders (customer) VALUES ($1) RETURNING id`, customer).Scan(&id); err != nil {
			return err
		}
		if err := s.q.Enqueue(ctx, pgxadapter.Tx(tx), demo.SendReceipt.New(demo.Receipt{OrderID: id})); err != nil {
			return err
		}
		return demo.Pay(customer) // an error rolls back both
	})
}

// SendReceipt writes the receipt and ends its job, or neither.
func (s *shop) SendReceipt(ctx context.Context, job *queue.Job, r demo.Receipt) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		lost, err := s.q.Settle(ctx, pgxadapter.Tx(tx), queue.Outcome{Job: job, Action: queue.Done})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			return queue.ErrLost // another worker has the job
		}
		if _, err := tx.Exec(ctx, `INSERT INTO receipts (order_id) VALUES ($1)`, r.OrderID); err != nil {
			return err
		}
		return demo.Print(r.OrderID, job.Attempt) // an error rolls back both, and the job runs again
	})
	if err != nil {
		return err
	}
	return queue.ErrSettled // the worker has nothing left to do
}
