// Bun shows errand with bun:
//
//	go run ./examples/bun
//
// An order and the job that sends its receipt are one transaction, and so are the receipt
// and the end of that job. Mallory's order is rolled back and leaves no job; Grace's receipt is rolled
// back once, and sent by the job's second run.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/queue"
)

// SendReceipt is declared once, used by the code that enqueues and the code that handles.
var SendReceipt = queue.NewKind[Receipt]("receipt.send")

func main() { demo.Main(run) }

func run(ctx context.Context, dsn string, out io.Writer) error {
	s, err := open(dsn)
	if err != nil {
		return err
	}
	defer s.pool.Close()
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

// Order is a row of the table orders.
type Order struct {
	ID       int64 `bun:",pk,autoincrement"`
	Customer string
}

// Receipt is a row of the table receipts, and the payload of SendReceipt.
type Receipt struct {
	OrderID int64 `json:"order_id" bun:",pk"`
}

// shop is the application: its database, and the queue in it.
type shop struct {
	db   *bun.DB
	pool *sql.DB // what db is built on
	q    *postgres.Backend
}

// open opens the database, and the queue over the same pool of connections.
func open(dsn string) (*shop, error) {
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	q, err := postgres.New(pool, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{bun.NewDB(pool, pgdialect.New()), pool, q}, err
}

func (s *shop) createTables(ctx context.Context) error {
	if err := postgres.Migrate(ctx, s.pool, postgres.Options{}); err != nil {
		return err
	}
	return s.db.ResetModel(ctx, (*Order)(nil), (*Receipt)(nil))
}

// placeOrder writes the order and its job, or neither. Enqueue gets tx.Tx, the *sql.Tx within,
// because bun's own methods read every query as one of bun's.
func (s *shop) placeOrder(ctx context.Context, customer string) error {
	return s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		order := Order{Customer: customer}
		if _, err := tx.NewInsert().Model(&order).Exec(ctx); err != nil {
			return err
		}
		if err := s.q.Enqueue(ctx, tx.Tx, SendReceipt.New(Receipt{OrderID: order.ID})); err != nil {
			return err
		}
		return demo.Pay(customer) // an error rolls back both
	})
}

// sendReceipt writes the receipt and ends its job, or neither.
func (s *shop) sendReceipt(ctx context.Context, job *queue.Job, r Receipt) error {
	err := s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		lost, err := s.q.Settle(ctx, tx.Tx, queue.Outcome{Job: job, Action: queue.Done})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			return queue.ErrLost // another worker has the job
		}
		if _, err := tx.NewInsert().Model(&r).Exec(ctx); err != nil {
			return err
		}
		return demo.Print(r.OrderID, job.Attempt) // an error rolls back both, and the job runs again
	})
	if err != nil {
		return err
	}
	return queue.Settled // the worker has nothing left to do
}
