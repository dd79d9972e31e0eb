package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/queue"
)

// OrderConfirm is the job that follows each order.
var OrderConfirm = queue.NewKind[Confirmation]("order.confirm")

// Confirmation is its payload.
type Confirmation struct {
	OrderID int64 `json:"order_id"`
}

// Order is what a customer sends.
type Order struct {
	Item string `json:"item"`
}

const schema = `CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL, confirmed_at timestamptz)`

// shop is the application: a database, a queue in it, and an HTTP API.
type shop struct {
	signals *signals
	db      *sql.DB
	jobs    queue.Queue
	forget  func() // ends the observation of the queue
	http    *http.Server
	url     string
}

func openShop(ctx context.Context, dsn string, signals *signals) (*shop, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	s := &shop{signals: signals, db: db}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *shop) open(ctx context.Context) error {
	if err := postgres.Migrate(ctx, s.db, postgres.Options{}); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, schema); err != nil {
		return err
	}
	backend, err := postgres.New(s.db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		return err
	}
	s.jobs = s.signals.errand.Queue(backend)
	if s.forget, err = s.signals.errand.Observe(backend); err != nil {
		return err
	}
	return s.serve()
}

// serve opens the API, each request of which is a span, and /metrics.
func (s *shop) serve() error {
	orders := otelhttp.NewHandler(http.HandlerFunc(s.handleOrder), "POST /orders",
		otelhttp.WithTracerProvider(s.signals.tracers), otelhttp.WithMeterProvider(s.signals.meters), otelhttp.WithPropagators(s.signals.propagator))
	routes := http.NewServeMux()
	routes.Handle("POST /orders", orders)
	routes.Handle("GET /metrics", s.signals.prometheus)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.url, s.http = "http://"+l.Addr().String(), &http.Server{Handler: routes}
	go func() { _ = s.http.Serve(l) }() // returns when the server is closed
	return nil
}

func (s *shop) close() {
	s.http.Close()
	s.forget()
	s.db.Close()
}

// handleOrder takes an order. The answer says by which trace to find what becomes of it.
func (s *shop) handleOrder(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.place(r.Context(), o); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Trace-Id", oteltrace.SpanContextFromContext(r.Context()).TraceID().String())
	w.WriteHeader(http.StatusCreated)
}

// place writes the order and enqueues its job in one transaction. The request's context is
// what ties the job to its trace.
func (s *shop) place(ctx context.Context, o Order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("place order: %w", err)
	}
	defer tx.Rollback() // does nothing once committed
	var id int64
	if err := tx.QueryRowContext(ctx, `INSERT INTO orders (item) VALUES ($1) RETURNING id`, o.Item).Scan(&id); err != nil {
		return fmt.Errorf("place order: %w", err)
	}
	if err := s.jobs.Enqueue(ctx, tx, OrderConfirm.New(Confirmation{OrderID: id})); err != nil {
		return err
	}
	return tx.Commit()
}
