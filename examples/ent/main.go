// Ent shows errand with ent:
//
//	go run ./examples/ent
//
// Package demo has the story, the tables and the worker.
package main

//go:generate go run -tags generate ./generate

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/examples/internal/generated/ent"
	"github.com/errandhq/errand/queue"
)

func main() { demo.Main(open) }

// shop is the application: its database, and the queue in it.
type shop struct {
	client *ent.Client
	pool   *sql.DB // what client is built on
	q      *postgres.Backend
}

// open opens the database, and the queue over the same pool of connections.
func open(dsn string) (demo.Shop, error) {
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, pool)))
	q, err := postgres.New(pool, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{client, pool, q}, err
}

func (s *shop) Queue() queue.Queue { return s.q }

func (s *shop) Close() { s.pool.Close() }

// PlaceOrder writes the order and its job, or neither. *ent.Tx is a queue.DB because its
// code was generated with the feature sql/execquery: see the folder generate.
func (s *shop) PlaceOrder(ctx context.Context, customer string) error {
	tx, err := s.client.Tx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing once committed

	order, err := tx.Order.Create().SetCustomer(customer).Save(ctx)
	if err != nil {
		return err
	}
	if err := s.q.Enqueue(ctx, tx, demo.SendReceipt.New(demo.Receipt{OrderID: int64(order.ID)})); err != nil {
		return err
	}
	if err := demo.Pay(customer); err != nil {
		return err // rolls back both
	}
	return tx.Commit()
}

// SendReceipt writes the receipt and ends its job, or neither.
func (s *shop) SendReceipt(ctx context.Context, job *queue.Job, r demo.Receipt) error {
	tx, err := s.client.Tx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()

	lost, err := s.q.Settle(ctx, tx, queue.Outcome{Job: job, Action: queue.Done})
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return queue.ErrLost // another worker has the job
	}
	if err := tx.Receipt.Create().SetOrderID(r.OrderID).Exec(ctx); err != nil {
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
