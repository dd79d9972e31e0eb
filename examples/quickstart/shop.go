package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// The kinds of jobs: declared once, used by the shop that enqueues them and by the
// workers that handle them.
var (
	OrderConfirm = queue.NewKind[Confirmation]("order.confirm")
	OrderWebhook = queue.Kind[Webhook]{
		Name:        "order.webhook",
		Queue:       "webhooks",       // apart from the others, so that a receiver that is down holds up nobody else
		MaxAttempts: 20,               // it will be back
		Timeout:     10 * time.Second, // of one attempt
	}
)

// Confirmation is the payload of OrderConfirm.
type Confirmation struct {
	OrderID int64  `json:"order_id"`
	Email   string `json:"email"`
}

// Webhook is the payload of OrderWebhook, and what the receiver gets.
type Webhook struct {
	OrderID int64  `json:"order_id"`
	Item    string `json:"item"`
	Cents   int64  `json:"cents"`
}

// Order is what a customer sends.
type Order struct {
	Customer string `json:"customer"`
	Email    string `json:"email"`
	Item     string `json:"item"`
	Cents    int64  `json:"cents"`
	Card     string `json:"card"`
}

// Reply is what the customer gets.
type Reply struct {
	OrderID int64  `json:"order_id"`
	Error   string `json:"error,omitempty"`
}

// shop is the application: a database, a queue in it, and an HTTP API.
type shop struct {
	db   *sql.DB
	jobs jobs
	url  string
	http *http.Server
}

// jobs is the queue, at which main.go and audit.go look, too; the application needs a
// queue.Enqueuer.
type jobs interface {
	queue.Queue
	driver.Inspector
}

//go:embed schema.sql
var schema string

// openShop creates the tables, errand's and the shop's, and opens the API.
func openShop(ctx context.Context, databaseURL string) (*shop, error) {
	d, err := dburl.Open(databaseURL, dburl.Options{})
	if err != nil {
		return nil, err
	}
	s := &shop{db: d.DB}
	if err := s.open(ctx, d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

func (s *shop) open(ctx context.Context, d *dburl.Database) (err error) {
	var ok bool
	if s.jobs, ok = driver.As[jobs](d.Queue); !ok || d.DB == nil {
		return errors.New("the shop and its workers are processes of their own, and need a database")
	}
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, schema); err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /orders", s.handleOrder)
	s.http, s.url, err = serve(routes)
	return err
}

func (s *shop) close() {
	s.http.Close()
	s.db.Close()
}

// handleOrder is the API: 201 for an order that was taken, 402 for one whose
// payment was declined.
func (s *shop) handleOrder(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := s.place(r.Context(), o)
	reply, status := Reply{OrderID: id}, http.StatusCreated
	if err != nil {
		reply.Error, status = err.Error(), http.StatusInternalServerError
	}
	if errors.Is(err, errDeclined) {
		status = http.StatusPaymentRequired
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply) // a customer who has gone away misses nothing: the order stands
}

// place writes the order and enqueues its jobs in one transaction. Once it has
// committed the jobs will be run; if it rolls back, for whatever reason and
// however late, they have never been.
func (s *shop) place(ctx context.Context, o Order) (id int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing once committed

	id = rand.Int64() // drawn here, as a UUID would be, so that not even an order that is rolled back shares it
	const insert = `INSERT INTO orders (id, customer, email, item, cents) VALUES ($1, $2, $3, $4, $5)`
	if _, err := tx.ExecContext(ctx, insert, id, o.Customer, o.Email, o.Item, o.Cents); err != nil {
		return 0, err
	}
	err = s.jobs.Enqueue(ctx, tx,
		OrderConfirm.New(Confirmation{OrderID: id, Email: o.Email}),
		OrderWebhook.New(Webhook{OrderID: id, Item: o.Item, Cents: o.Cents}))
	if err != nil {
		return 0, err
	}
	if err := pay(o.Card); err != nil {
		return id, err // rolls back the order and both jobs
	}
	return id, tx.Commit()
}

// declinedCard is one that no bank accepts.
const declinedCard = "4000 0000 0000 0002"

var errDeclined = errors.New("card declined")

func pay(card string) error {
	if card == declinedCard {
		return errDeclined
	}
	return nil
}
