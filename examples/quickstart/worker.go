package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/queue"
)

// workerMain is a worker process. It lasts until its standard input ends, which
// is when the first process wants it to, or has itself come to an end. Ctrl-C, which a
// terminal sends to both, is for the first process to act on. A worker with no
// such parent would take its ctx from signal.NotifyContext.
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
func work(ctx context.Context, name, dsn, receiverURL string) error {
	db, err := openDB(dsn, name)
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		return err
	}

	h := &handlers{db: db, jobs: q, receiver: receiverURL, client: newClient()}
	mux := queue.NewMux()
	OrderConfirm.Handle(mux, h.confirm)
	OrderWebhook.Handle(mux, h.deliver)

	return queue.Worker{
		Backend: q,
		Handler: mux,
		Queues:  []string{queue.DefaultQueue, OrderWebhook.Queue}, // confirmations first
		Name:    name,                                             // so that the audit can tell whose jobs they were; usually left out
		Lease:   3 * time.Second,                                  // so that a killed worker's jobs are back soon; usually 30 s
		Grace:   time.Second,
		// Failures are what this is about: a line for each would be thousands.
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}.Run(ctx)
}

// handlers are the shop's, with what they need.
type handlers struct {
	db       *sql.DB
	jobs     queue.Consumer
	receiver string
	client   *http.Client
}

// deliver tells the receiver about an order. It happens at least once: a worker
// that dies after the receiver's answer, and before the outcome is recorded,
// leaves a job that another will run again. So the receiver is told the job's id,
// by which it can know a repetition.
func (h *handlers) deliver(ctx context.Context, job *queue.Job, _ Webhook) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.receiver, bytes.NewReader(job.Payload))
	if err != nil {
		return queue.Discard(err) // another attempt would fare no better
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", strconv.FormatInt(job.ID, 10))
	req.Header.Set("User-Agent", job.Worker)
	resp, err := h.client.Do(req)
	if err != nil {
		return retrySoon(job, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // an error of its own would say no more
		return retrySoon(job, fmt.Errorf("receiver: %s: %s", resp.Status, bytes.TrimSpace(text)))
	}
	return nil
}

// confirm writes a confirmation exactly once: in the transaction that settles the
// job. It settles first, which says whether the job is still this worker's, and
// keeps it so until the commit; if it is not, nothing is written.
func (h *handlers) confirm(ctx context.Context, job *queue.Job, c Confirmation) error {
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return retrySoon(job, err)
	}
	defer tx.Rollback() // does nothing once committed

	lost, err := h.jobs.Settle(ctx, tx, queue.Outcome{Job: job, Verb: queue.Done})
	if err != nil {
		return retrySoon(job, err)
	}
	if len(lost) > 0 {
		return queue.ErrLost
	}
	const insert = `INSERT INTO confirmations (order_id, email) VALUES ($1, $2)`
	if _, err := tx.ExecContext(ctx, insert, c.OrderID, c.Email); err != nil {
		return retrySoon(job, err)
	}
	if err := tx.Commit(); err != nil {
		return retrySoon(job, err)
	}
	return queue.Settled
}

// retrySoon tries again after 0.1 s, twice that the next time, and so on to
// 0.8 s, of which up to half is left out at random so that jobs that failed
// together do not come back together. A plain error would wait for 30 s first.
func retrySoon(job *queue.Job, err error) error {
	pause := 100 * time.Millisecond << min(job.Attempt-1, 3)
	return queue.RetryAfter(pause-rand.N(pause/2), err)
}
