package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ownKey runs a keyed job whose handler enqueues the next one with the same Key, and returns what
// Tx says.
func ownKey(t *testing.T, db *sql.DB, q queue.Queue, o middleware.TxOptions, settles bool, on queue.OnDuplicate) error {
	t.Helper()
	job := pay.New(payment{})
	job.Key = "the key"
	if err := q.Enqueue(t.Context(), nil, job); err != nil {
		t.Fatal(err)
	}
	held, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "tester"})
	if err != nil || len(held) != 1 {
		t.Fatalf("claimed %d jobs (%v), want 1", len(held), err)
	}
	return queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if settles {
			if _, err := q.Settle(ctx, tx, queue.Outcome{Job: job}); err != nil {
				return err
			}
		}
		next := receipt.New(payment{})
		next.Key, next.OnDuplicate = job.Key, on
		if err := q.Enqueue(ctx, tx, next); err != nil || !settles {
			return err
		}
		return queue.ErrSettled
	}), middleware.Tx(db, q, o)).HandleJob(t.Context(), held[0])
}

// TestTxOwnKey: a handler that enqueues the next job with the Key of its own succeeds where its job
// is settled by then, or gives its Key up, and is told elsewhere: the next job would be missing.
func TestTxOwnKey(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (*sql.DB, queue.Queue){
		"postgres": func(t *testing.T) (*sql.DB, queue.Queue) { b := openBank(t); return b.db, b.q },
		"sqlite":   func(t *testing.T) (*sql.DB, queue.Queue) { return openSQLite(t, "sqlite") },
	} {
		t.Run(name, func(t *testing.T) {
			db, q := open(t)
			if err := ownKey(t, db, q, middleware.TxOptions{}, false, queue.Keep); err == nil || !strings.Contains(err.Error(), "SettleFirst") {
				t.Errorf("settled last: got %v, want an error that names SettleFirst", err)
			}
			for what, err := range map[string]error{
				"settled first":          inFresh(t, open, middleware.TxOptions{SettleFirst: true}, false, queue.Keep),
				"settled by its handler": inFresh(t, open, middleware.TxOptions{}, true, queue.Keep),
				"replaced":               inFresh(t, open, middleware.TxOptions{}, false, queue.Replace),
			} {
				if !errors.Is(err, queue.ErrSettled) {
					t.Errorf("%s: got %v, want %v", what, err, queue.ErrSettled)
				}
			}
		})
	}
}

// inFresh is ownKey in a database of its own, in which it checks what is left.
func inFresh(t *testing.T, open func(t *testing.T) (*sql.DB, queue.Queue), o middleware.TxOptions, settles bool, on queue.OnDuplicate) error {
	t.Helper()
	db, q := open(t)
	err := ownKey(t, db, q, o, settles, on)
	inspector, _ := driver.As[driver.Inspector](q)
	left, _, failed := inspector.Jobs(t.Context(), queue.Filter{Kind: receipt.Name, Status: queue.StatusPending, Key: "the key"})
	if failed != nil || len(left) != 1 {
		t.Errorf("%d next jobs are pending (%v), want 1", len(left), failed)
	}
	return err
}
