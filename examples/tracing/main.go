// Tracing follows one order through a shop that runs on errand, by OpenTelemetry:
//
//	go run ./examples/tracing                       # prints the trace
//	go run ./examples/tracing -svg docs/trace.svg   # draws it
//
// It finds or starts a PostgreSQL by itself. A customer places an order over HTTP; the
// order is written in one transaction with a job, and a worker runs the job. What is
// shown is what they have traced: the request, the enqueue, the claim, the run of the
// handler with what it does itself, and the settling. /metrics has been served
// meanwhile, for Prometheus.
//
// Where to read: signals.go sets OpenTelemetry up, shop.go enqueues, worker.go handles. The
// rest shows it: trace.go picks the spans, text.go prints them, svg.go draws them.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/errandhq/errand/backend/postgrestest"
)

func main() {
	svg := flag.String("svg", "", "draw the trace into the file of that `name` instead of printing it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *svg); err != nil {
		fmt.Fprintln(os.Stderr, "tracing:", err)
		os.Exit(1)
	}
}

// run starts a server, follows an order in it, and shows what it has seen.
func run(ctx context.Context, out io.Writer, svg string) (err error) {
	server, err := postgrestest.Start(ctx, postgrestest.Options{Durable: true}) // so that commits take the time that they take
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Fprintln(out, server.Description)

	seen, err := follow(ctx, server.DSN)
	if err != nil {
		return err
	}
	if svg == "" {
		fmt.Fprint(out, seen.trace.text())
	} else if err := os.WriteFile(svg, seen.trace.svg(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "/metrics has %d series\n", countSeries(seen.metrics))
	return nil
}

// sight is what can be seen of an order.
type sight struct {
	trace   trace
	metrics string // as Prometheus gets them
}

// follow opens a shop with a worker and follows an order. It has stopped all it has started
// when it returns.
func follow(ctx context.Context, dsn string) (s sight, err error) {
	signals, err := newSignals()
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, signals.close()) }()
	shop, err := openShop(ctx, dsn, signals)
	if err != nil {
		return s, err
	}
	defer shop.close()
	worker := shop.hire(ctx)
	defer func() { err = cmp.Or(err, worker.dismiss()) }()

	customer := newCustomer(shop.url)
	defer customer.leave()
	// The first order pays for what is done once, such as opening connections.
	for range 2 {
		if s.trace.id, err = customer.order(ctx); err != nil {
			return s, err
		}
		if err := worker.awaitConfirmation(ctx); err != nil {
			return s, err
		}
	}
	if err := worker.dismiss(); err != nil { // it settles what it has done
		return s, err
	}
	if s.metrics, err = customer.get(ctx, "/metrics"); err != nil {
		return s, err
	}
	if err := shop.http.Shutdown(ctx); err != nil { // a request's span ends after its answer
		return s, err
	}
	s.trace.rows = rowsOf(signals.spans.GetSpans(), s.trace.id)
	return s, nil
}
