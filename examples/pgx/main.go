// Pgx shows errand with native pgx, by way of package pgxadapter:
//
//	go run ./examples/pgx
//
// An order and the job that sends its receipt are one transaction, and so are the receipt
// and the end of that job. Mallory's order is rolled back and leaves no job; Grace's receipt is rolled
// back once, and sent by the job's second run.
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/queue"
)

// SendReceipt is declared once, used by the code that enqueues and the code that handles.
var SendReceipt = queue.NewKind[Receipt]("receipt.send")

// Receipt is its payload.
type Receipt struct {
	OrderID int64 `json:"order_id"`
}

func main() { demo.Main(run) }

func run(ctx context.Context, dsn string, out io.Writer) error {
	s, err := open(ctx, dsn)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.createTables(ctx); err != nil {
		return err
	}

	for _, customer := range []string{"Ada", "Grace", "Edsger"} {
		if err := s.placeOrder(ctx, customer); err != nil {
			return err
		}
		fmt.Fprintln(out, customer, "has ordered")
	}
	if err := s.placeOrder(ctx, "Mallory"); !errors.Is(err, demo.ErrDeclined) {
		return errors.Join(errors.New("the order of Mallory was not declined"), err)
	}
	fmt.Fprintln(out, "Mallory's order is rolled back")

	mux := queue.NewMux()
	SendReceipt.Handle(mux, s.sendReceipt)
	if err := demo.Work(ctx, queue.Worker{Backend: s.q, Handler: mux}, 3); err != nil {
		return err
	}
	return demo.Account{Orders: 3, Receipts: 3, Completed: 3, Runs: 4}.Check(ctx, dsn, out)
}

// shop is the application: its pool of connections, and the queue over it.
type shop struct {
	pool *pgxpool.Pool
	db   *sql.DB // the same connections, as the queue wants them
	q    *postgres.Backend
}

// open opens the pool, and the queue over it. The queue takes a connection for the time of a
// call, and its worker one on which it listens.
func open(ctx context.Context, dsn string) (*shop, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{pool, db, q}, err
}

func (s *shop) close() {
	s.db.Close()
	s.pool.Close()
}

//go:embed schema.sql
var schema string

func (s *shop) createTables(ctx context.Context) error {
	if err := postgres.Migrate(ctx, s.db, postgres.Options{}); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, schema)
	return err
}

// placeOrder writes the order and its job, or neither.
func (s *shop) placeOrder(ctx context.Context, customer string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id int64
		if err := tx.QueryRow(ctx, `INSERT INTO orders (customer) VALUES ($1) RETURNING id`, customer).Scan(&id); err != nil {
			return err
		}
		if err := s.q.Enqueue(ctx, pgxadapter.Tx(tx), SendReceipt.New(Receipt{OrderID: id})); err != nil {
			return err
		}
		return demo.Pay(customer) // an error rolls back both
	})
}

// sendReceipt writes the receipt and ends its job, or neither.
func (s *shop) sendReceipt(ctx context.Context, job *queue.Job, r Receipt) error {
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
	return queue.Settled // the worker has nothing left to do
}
