// Sqlc shows errand with the code that sqlc generates for database/sql:
//
//	go run ./examples/sqlc
//
// An order and the job that sends its receipt are one transaction, and so are the receipt
// and the end of that job. Mallory's order is rolled back and leaves no job; Grace's receipt is rolled
// back once, and sent by the job's second run.
package main

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/examples/sqlc/shopdb"
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
	s, err := open(dsn)
	if err != nil {
		return err
	}
	defer s.db.Close()
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

// shop is the application: its database, and the queue in it.
type shop struct {
	db      *sql.DB
	queries *shopdb.Queries
	q       *postgres.Backend
}

// open opens the database, and the queue over the same pool of connections.
func open(dsn string) (*shop, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{db, shopdb.New(db), q}, err
}

//go:embed schema.sql
var schema string

func (s *shop) createTables(ctx context.Context) error {
	if err := postgres.Migrate(ctx, s.db, postgres.Options{}); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, schema)
	return err
}

// placeOrder writes the order and its job, or neither.
func (s *shop) placeOrder(ctx context.Context, customer string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing once committed

	id, err := s.queries.WithTx(tx).CreateOrder(ctx, customer)
	if err != nil {
		return err
	}
	if err := s.q.Enqueue(ctx, tx, SendReceipt.New(Receipt{OrderID: id})); err != nil {
		return err
	}
	if err := demo.Pay(customer); err != nil {
		return err // rolls back both
	}
	return tx.Commit()
}

// sendReceipt writes the receipt and ends its job, or neither.
func (s *shop) sendReceipt(ctx context.Context, job *queue.Job, r Receipt) error {
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
	if err := s.queries.WithTx(tx).CreateReceipt(ctx, r.OrderID); err != nil {
		return err
	}
	if err := demo.Print(r.OrderID, job.Attempt); err != nil {
		return err // rolls back both, and the job runs again
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return queue.Settled // the worker has nothing left to do
}
