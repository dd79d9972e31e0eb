// Package demo is what the examples of database libraries have in common, so that
// each of them shows its library alone: a server, a worker that stops when there is nothing left to do,
// what goes wrong, and an account of it all.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// Run is an example: it works on the empty database that dsn names, tells out what
// happens, and returns an error unless all of it came out right.
type Run func(ctx context.Context, dsn string, out io.Writer) error

// Main is an example's main. It finds or starts a server (see package
// postgrestest), ends run's context at Ctrl-C, and exits with status 1 after an error.
func Main(run Run) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := onServer(ctx, run); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func onServer(ctx context.Context, run Run) (err error) {
	server, err := postgrestest.Start(ctx, postgrestest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Println(server.Description)
	return run(ctx, server.DSN, os.Stdout)
}

// patience is how long Work waits; the examples take a second or two.
const patience = 30 * time.Second

// Work runs the worker until n jobs are completed, and returns when it has stopped. It is an
// error if that takes longer than half a minute, or if ctx ends before. A program
// of your own calls worker.Run(ctx), which lasts until ctx ends.
func Work(ctx context.Context, worker queue.Worker, n int) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	err := awaitCompleted(ctx, worker.Backend, n)
	stop()
	return errors.Join(err, <-ended)
}

func awaitCompleted(ctx context.Context, backend queue.Consumer, n int) error {
	inspector, ok := queue.As[queue.Inspector](backend)
	if !ok {
		return fmt.Errorf("demo: %T is no Inspector", backend)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for seen := 0; ; {
		done, err := completed(ctx, inspector)
		if err != nil {
			return fmt.Errorf("demo: %d of %d jobs completed: %w", seen, n, err)
		}
		if seen = done; seen >= n {
			return nil
		}
		select {
		case <-ctx.Done(): // which the next call reports
		case <-tick.C:
		}
	}
}

func completed(ctx context.Context, inspector queue.Inspector) (n int, err error) {
	counts, err := inspector.Counts(ctx)
	for _, c := range counts {
		if c.Status == queue.StatusCompleted {
			n += int(c.Jobs)
		}
	}
	return n, err
}

// ErrDeclined is what Pay says to Mallory.
var ErrDeclined = errors.New("card declined")

// Pay takes the customer's money, unless it is Mallory.
func Pay(customer string) error {
	if customer == "Mallory" {
		return ErrDeclined
	}
	return nil
}

// Print prints a receipt. The printer jams at the first attempt to print that of
// order 2, which is then to be tried again at once.
func Print(order int64, attempt int) error {
	if order == 2 && attempt == 1 {
		return queue.RetryAfter(0, errors.New("paper jam"))
	}
	return nil
}
