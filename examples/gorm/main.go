// Gorm shows errand with gorm:
//
//	go run ./examples/gorm
//
// Package demo has the story, the tables and the worker.
package main

import (
	"context"
	"database/sql"

	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/queue"
)

func main() { demo.Main(open) }

// Order is a row of the table orders.
type Order struct {
	ID       int64
	Customer string
}

// Receipt is a row of the table receipts.
type Receipt struct {
	OrderID int64 `gorm:"primaryKey;autoIncrement:false"`
}

// shop is the application: its database, and the queue in it.
type shop struct {
	db   *gorm.DB
	pool *sql.DB // what db is built on
	q    *postgres.Backend
}

// open opens the database, and the queue over the same pool of connections.
func open(dsn string) (demo.Shop, error) { return openWith(dsn, &gorm.Config{}) }

func openWith(dsn string, config *gorm.Config) (demo.Shop, error) {
	db, err := gorm.Open(gormpostgres.Open(dsn), config)
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	q, err := postgres.New(pool, postgres.Options{Listen: pgxlisten.Listen})
	return &shop{db, pool, q}, err
}

func (s *shop) Queue() queue.Queue { return s.q }

func (s *shop) Close() { s.pool.Close() }

// PlaceOrder writes the order and its job, or neither.
func (s *shop) PlaceOrder(ctx context.Context, customer string) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order := Order{Customer: customer}
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		job := demo.SendReceipt.New(demo.Receipt{OrderID: order.ID})
		if err := s.q.Enqueue(ctx, tx.Statement.ConnPool, job); err != nil {
			return err
		}
		return demo.Pay(customer) // an error rolls back both
	})
}

// SendReceipt writes the receipt and ends its job, or neither.
func (s *shop) SendReceipt(ctx context.Context, job *queue.Job, r demo.Receipt) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		lost, err := s.q.Settle(ctx, tx.Statement.ConnPool, queue.Outcome{Job: job, Action: queue.Done})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			return queue.ErrLost // another worker has the job
		}
		if err := tx.Create(&Receipt{OrderID: r.OrderID}).Error; err != nil {
			return err
		}
		return demo.Print(r.OrderID, job.Attempt) // an error rolls back both, and the job runs again
	})
	if err != nil {
		return err
	}
	return queue.ErrSettled // the worker has nothing left to do
}
