// Databasesql shows errand with nothing but database/sql:
//
//	go run ./examples/databasesql
//
// Package demo has the story, the tables and the worker.
package main

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/queue"
)

func main() { demo.Main(open) }

// shop is the application: its database, and the queue in it.
type shop struct {
	db *sql.DB
	q  *postgres.Backend
}

// open opens the database, and the queue over the same pool of connections.
func open(dsn string) (demo.Shop, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{db, q}, err
}

func (s *shop) Queue() queue.Queue { return s.q }

func (s *shop) Close() { s.db.Close() }

// PlaceOrder writes the order and its job, or neither.
func (s *shop) PlaceOrder(ctx context.Context, customer string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing once committed

	var id int64
	if err := tx.QueryRowContext(ctx, `INSERT INTO orders (customer) VALUES ($1) RETURNING id`, customer).Scan(&id); err != nil {
		return err
	}
	if err := s.q.Enqueue(ctx, tx, demo.SendReceipt.New(demo.Receipt{OrderID: id})); err != nil {
		return err
	}
	if err := demo.Pay(customer); err != nil {
		return err // rolls back both
	}
	return tx.Commit()
}

// SendReceipt writes the receipt and ends its job, or neither.
func (s *shop) SendReceipt(ctx context.Context, job *queue.Job, r demo.Receipt) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()

	lost, err := s.q.Settle(ctx, tx, queue.Outcome{Job: job, Action: queue.Done})
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return queue.ErrLost // another worker has the job
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO receipts (order_id) VALUES ($1)`, r.OrderID); err != nil {
		return err
	}
	if err := demo.Print(r.OrderID, job.Attempt); err != nil {
		return err // rolls back both, and the job runs again
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return queue.ErrSettled // the worker has nothing left to do
}
