package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// lease is short, so that what a failover has interrupted runs again soon; by default it is 30 s.
const lease = 5 * time.Second

// work runs one worker for the queues of both backends. end ends it.
func (d *day) work(ctx context.Context) (end func() error) {
	h := &handlers{db: d.postgres.DB, jobs: d.jobs, ledger: d.ledger}
	mux := queue.NewMux()
	OrderConfirm.Handle(mux, h.confirm)
	Clicked.Handle(mux, h.count)
	w := engine.Worker{
		Backend: d.jobs, Handler: mux, Logger: quiet, Lease: lease, Observe: d.observe,
		Queues: []string{queue.DefaultQueue, Clicked.Queue},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// handlers are the shop's, with what they need.
type handlers struct {
	db     *sql.DB
	jobs   queue.Consumer
	ledger *ledger
}

// confirm writes a confirmation exactly once: in the transaction that settles the job. Only
// Postgres can do that.
func (h *handlers) confirm(ctx context.Context, job *queue.Job, o Order) error {
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing once committed
	lost, err := h.jobs.Settle(ctx, tx, queue.Outcome{Job: job, Action: queue.Done})
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return queue.ErrLost
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO confirmations (order_id) VALUES ($1)`, o.ID); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return queue.ErrSettled // the worker has nothing left to do
}

// count handles a click, at least once.
func (h *handlers) count(_ context.Context, _ *queue.Job, c Click) error {
	h.ledger.noteRun(c.Name)
	return nil
}
