// Package demo has the story that the examples of database libraries share. Each example shows
// only what its library makes different: how it opens the database, and two transactions.
//
// The story: an order and the job that sends its receipt are written in one transaction, and so
// are the receipt and the end of that job. Ada, Grace and Edsger order. Mallory's card is
// declined: her order is rolled back and leaves no job. The printer jams on Grace's receipt: it is
// rolled back, and the job's second run sends it.
package demo

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// SendReceipt is the kind of the jobs. The code that enqueues and the code that handles share it.
var SendReceipt = queue.NewKind[Receipt]("receipt.send")

// Receipt is the payload of a job of kind SendReceipt.
type Receipt struct {
	OrderID int64 `json:"order_id"`
}

// Shop is the application, written with one library.
type Shop interface {
	// Queue returns the queue, which uses the same pool of connections as the library.
	Queue() queue.Queue
	// PlaceOrder writes an order and its job of kind SendReceipt, or neither.
	PlaceOrder(ctx context.Context, customer string) error
	// SendReceipt writes the receipt and settles its job, or neither.
	SendReceipt(ctx context.Context, job *queue.Job, r Receipt) error
	// Close closes the pool.
	Close()
}

// Open opens the shop in the database that dsn names, in which CreateTables has been called.
type Open func(dsn string) (Shop, error)

// Main is an example's main. It finds or starts a server (see package postgrestest), calls Run,
// stops at Ctrl-C, and exits with status 1 after an error.
func Main(open Open) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runOnServer(ctx, open); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func runOnServer(ctx context.Context, open Open) (err error) {
	server, err := postgrestest.Start(ctx, postgrestest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Println(server.Description)
	return Run(ctx, server.DSN, open, os.Stdout)
}

// Run plays the story in the empty database that dsn names and writes to out what happens. It
// returns an error unless everything comes out right.
func Run(ctx context.Context, dsn string, open Open, out io.Writer) error {
	if err := CreateTables(ctx, dsn); err != nil {
		return err
	}
	shop, err := open(dsn)
	if err != nil {
		return err
	}
	defer shop.Close()

	for _, customer := range []string{"Ada", "Grace", "Edsger"} {
		if err := shop.PlaceOrder(ctx, customer); err != nil {
			return err
		}
		fmt.Fprintln(out, customer, "has ordered")
	}
	if err := shop.PlaceOrder(ctx, "Mallory"); !errors.Is(err, ErrDeclined) {
		return errors.Join(errors.New("the order of Mallory was not declined"), err)
	}
	fmt.Fprintln(out, "Mallory's order is rolled back")

	if err := work(ctx, engine.Worker{Backend: shop.Queue(), Handler: Handler(shop)}, 3); err != nil {
		return err
	}
	return Account{Orders: 3, Receipts: 3, Completed: 3, Runs: 4}.check(ctx, dsn, out)
}

// Handler returns the handler of the shop's jobs.
func Handler(shop Shop) queue.Handler {
	mux := queue.NewMux()
	SendReceipt.Handle(mux, shop.SendReceipt)
	return mux
}

//go:embed schema.sql
var schema string

// CreateTables creates errand's tables and the shop's in the database that dsn names.
func CreateTables(ctx context.Context, dsn string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := postgres.Migrate(ctx, db, postgres.Options{}); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, schema)
	return err
}

// ErrDeclined is what Pay returns for Mallory.
var ErrDeclined = errors.New("card declined")

// Pay takes the customer's money. Mallory's card is declined.
func Pay(customer string) error {
	if customer == "Mallory" {
		return ErrDeclined
	}
	return nil
}

// Print prints a receipt. The printer jams at the first attempt for order 2, which is Grace's:
// the job is retried at once.
func Print(order int64, attempt int) error {
	if order == 2 && attempt == 1 {
		return queue.RetryAfter(0, errors.New("paper jam"))
	}
	return nil
}
