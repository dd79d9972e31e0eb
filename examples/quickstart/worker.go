package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// workerMain is a worker process. It lasts until its standard input ends, which
// is when the first process closes it, or has itself come to an end. Ctrl-C, which
// a terminal sends to both, is for the first process to act on. A worker on its
// own would take its context from signal.NotifyContext instead.
func workerMain(name, receiverURL string) error {
	signal.Ignore(os.Interrupt)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return work(ctx, name, os.Getenv("DATABASE_URL"), receiverURL)
}

// work runs jobs until ctx ends.
func work(ctx context.Context, name, databaseURL, receiverURL string) error {
	d, err := dburl.Open(databaseURL, dburl.Options{})
	if err != nil {
		return err
	}
	defer d.Close()

	h := &handlers{db: d.DB, jobs: d.Queue, receiverURL: receiverURL, client: newClient()}
	mux := queue.NewMux()
	OrderConfirm.Handle(mux, h.confirm)
	OrderWebhook.Handle(mux, h.deliver)

	return engine.Worker{
		Backend: d.Queue,
		Handler: queue.Chain(mux, impatient),
		Queues:  []string{queue.DefaultQueue, OrderWebhook.Queue}, // confirmations go first
		Name:    name,                                             // by which the audit knows it; best left out
		Lease:   3 * time.Second,                                  // a dead worker's jobs are back soon; by default after 30 s
		Grace:   time.Second,
		// A line for each failure would be thousands of lines here.
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}.Run(ctx)
}

// handlers are the shop's, with what they need.
type handlers struct {
	db          *sql.DB
	jobs        queue.Consumer
	receiverURL string
	client      *http.Client
}

// confirm writes a confirmation exactly once: in the transaction that settles the
// job. It settles first. That tells whether the job is still this worker's, and
// keeps it so until the transaction ends; if it is not, nothing is written.
func (h *handlers) confirm(ctx context.Context, job *queue.Job, c Confirmation) error {
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
	const insert = `INSERT INTO confirmations (order_id, email) VALUES ($1, $2)`
	if _, err := tx.ExecContext(ctx, insert, c.OrderID, c.Email); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return queue.ErrSettled // the worker has nothing left to do
}

// deliver tells the receiver about an order. No transaction reaches that far, so
// it happens at least once: if the worker dies after the receiver's answer and
// before the job is settled, another worker delivers it again. The receiver can
// tell by the job's ID.
func (h *handlers) deliver(ctx context.Context, job *queue.Job, hook Webhook) error {
	body, err := json.Marshal(hook)
	if err != nil {
		return queue.Discard(err) // would be the same the next time
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.receiverURL, bytes.NewReader(body))
	if err != nil {
		return queue.Discard(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", strconv.FormatInt(job.ID, 10))
	req.Header.Set("User-Agent", job.Worker)
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return nil
}

// impatient is middleware. It tries a failed job again after 0.1 s, then twice
// that, and so on to 0.8 s; by default it would be after 30 s, doubling up to an hour.
// Up to half is left out at random, lest what failed together comes back together.
func impatient(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		err := next.HandleJob(ctx, job)
		if o, ok := queue.OutcomeOf(ctx, job, err); !ok || o.Action != queue.Retry {
			return err
		}
		pause := 100 * time.Millisecond << min(job.Attempt-1, 3)
		return queue.RetryAfter(pause-rand.N(pause/2), err)
	})
}
