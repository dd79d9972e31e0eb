package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// txWays are the ways to give handlers a transaction on the queue in memory.
func txWays(t *testing.T, q queue.Queue) map[string]queue.Middleware {
	t.Helper()
	none, stock := queuetest.NoDatabase(), openStock()
	t.Cleanup(func() { none.Close(); stock.Close() })
	return map[string]queue.Middleware{
		"NoDatabase": middleware.Tx(none, q, middleware.TxOptions{SQL: &sql.TxOptions{Isolation: sql.LevelSerializable}}),
		"SQLite":     middleware.Tx(stock, q, middleware.TxOptions{}),
		"WithTx": func(next queue.Handler) queue.Handler {
			return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
				tx, err := none.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				return errors.Join(next.HandleJob(middleware.WithTx(ctx, tx), job), tx.Commit())
			})
		},
	}
}

// TestTxInMemory: handlers of Tx run on the queue in memory, and their jobs end there.
func TestTxInMemory(t *testing.T) {
	for name := range txWays(t, queuetest.New(queuetest.Options{})) {
		t.Run(name, func(t *testing.T) {
			q := queuetest.New(queuetest.Options{})
			declined := errors.New("declined")
			h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
				if job.Key == "fails" {
					return declined
				}
				return q.Enqueue(ctx, tx, receipt.New(payment{}))
			}), txWays(t, q)[name])
			good, bad := pay.New(payment{}), pay.New(payment{Order: 1})
			bad.Key = "fails"
			if err := q.Enqueue(t.Context(), nil, good, bad); err != nil {
				t.Fatal(err)
			}
			if ran, err := q.Drain(t.Context(), h); err != nil || ran != 2 {
				t.Fatalf("Drain: got %d runs, %v; want 2", ran, err)
			}
			queuetest.WantJob(t, q, receipt, payment{}, queuetest.Times(1))
			if rec := queuetest.WantJob(t, q, pay, payment{}); rec.Status != queue.StatusCompleted {
				t.Errorf("the job whose handler returned nil: %s, want completed", rec.Status)
			}
			rec := queuetest.WantJob(t, q, pay, payment{Order: 1})
			if rec.Status != queue.StatusPending || rec.LastError != declined.Error() {
				t.Errorf("the job whose handler failed: %s, %q; want pending, %q", rec.Status, rec.LastError, declined)
			}
		})
	}
}

// TestNoDatabaseStatement: a statement fails with an error that shows it.
func TestNoDatabaseStatement(t *testing.T) {
	db := queuetest.NoDatabase()
	defer db.Close()
	h := handler(handle)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = h.HandleJob(middleware.WithTx(t.Context(), tx), pay.New(payment{}))
	if err == nil || !strings.Contains(err.Error(), "runs no statements: INSERT INTO payments") {
		t.Errorf("got %v, want an error with the statement", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

// TestTxInMemoryWorker: a worker runs the chain of the program over the queue in memory.
func TestTxInMemoryWorker(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(t.Context(), nil, pay.New(payment{}), pay.New(payment{Order: 1})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if err := q.Enqueue(ctx, tx, receipt.New(payment{})); err != nil {
			return err
		}
		queuetest.WantJob(t, q, receipt, payment{}, queuetest.Through(tx))
		if strings.Contains(string(job.Payload), "1") {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		return nil
	}), txWays(t, q)["NoDatabase"])
	if err := (engine.Worker{Backend: q, Handler: h, Logger: quiet}).Run(ctx); err != nil {
		t.Fatal(err)
	}
	for order := range 2 {
		if got := queuetest.WantJob(t, q, pay, payment{Order: order}); got.Status != queue.StatusCompleted {
			t.Errorf("job of order %d: %s, want completed", order, got.Status)
		}
	}
}

func TestWithTxNil(t *testing.T) {
	wantPanic(t, "WithTx: tx is nil", func() { middleware.WithTx(t.Context(), nil) })
}
