package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// The kinds of jobs. Their queues are in different backends, and nothing here says so.
var (
	OrderConfirm = queue.NewKind[Order]("order.confirm")
	Clicked      = queue.Kind[Click]{Name: "clicked", Queue: "clicks", MaxAttempts: 20}
)

// Order is the payload of OrderConfirm.
type Order struct {
	ID   int64  `json:"id"`
	Item string `json:"item"`
}

// Click is the payload of Clicked: a visitor has looked at an item, or ordered it.
type Click struct {
	Name string `json:"name"` // of this click, as the ledger has it
	Item string `json:"item"`
}

// shop is the application.
type shop struct {
	db     *sql.DB
	jobs   queue.Enqueuer
	ledger *ledger
}

// visit looks at things and orders some, as one visitor of several.
func (s *shop) visit(ctx context.Context, visitor int) {
	for id := visitor; id < orders && ctx.Err() == nil; id += visitorsAtOnce {
		for view := range viewsPerOrder {
			s.view(ctx, Click{Name: fmt.Sprintf("view %d of %d", view, id), Item: "book"})
			time.Sleep(thinkTime)
		}
		o := Order{ID: int64(id), Item: "book"}
		s.ledger.noteOrder(o.ID, s.order(ctx, o, id%declineEvery == 0))
	}
}

// view enqueues a click that belongs to no transaction: it goes to Redis at once.
func (s *shop) view(ctx context.Context, c Click) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s.ledger.noteClick(c.Name, s.jobs.Enqueue(ctx, nil, Clicked.New(c)))
}

var errDeclined = errors.New("card declined")

// order writes an order, a job that confirms it, and a click, in one transaction of Postgres. The
// queue of the click is in Redis, so errand writes the click to its outbox in Postgres, and a
// worker forwards it after the commit. An order that is rolled back leaves no click.
func (s *shop) order(ctx context.Context, o Order, isDeclined bool) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing once committed
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, item) VALUES ($1, $2)`, o.ID, o.Item); err != nil {
		return err
	}
	if err := s.jobs.Enqueue(ctx, tx, OrderConfirm.New(o), Clicked.New(Click{Name: orderClick(o.ID), Item: o.Item})); err != nil {
		return err
	}
	if isDeclined {
		return errDeclined // rolls back the order and both jobs
	}
	return tx.Commit()
}

// orderClick is the name of the click with which a visitor orders.
func orderClick(id int64) string { return fmt.Sprintf("order %d", id) }
