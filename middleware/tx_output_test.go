package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestTxOutput: the output of a handler is written by the commit that settles its job.
func TestTxOutput(t *testing.T) {
	b := openBank(t)
	keeper, _ := driver.As[driver.ResultKeeper](b.q)
	for _, fails := range []bool{true, false} {
		b.enqueue(1)
		h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
			if err := queue.SetOutput(ctx, "paid"); err != nil {
				return err
			}
			if fails {
				return queue.Discard(errors.New("declined"))
			}
			return handle(ctx, tx, job)
		}), middleware.Tx(b.db, b.q, middleware.TxOptions{}))
		job := b.claimOne()
		err := h.HandleJob(queue.WithResults(t.Context()), job)
		r, ok, resultErr := keeper.Result(t.Context(), job.ID)
		if resultErr != nil || !ok {
			t.Fatalf("Result: %v, error %v", ok, resultErr)
		}
		if fails && (errors.Is(err, queue.ErrSettled) || r.Output != nil) {
			t.Errorf("after a rollback: got answer %v, output %s; want no output", err, r.Output)
		}
		if !fails {
			if text, outputErr := queue.Output[string](r); !errors.Is(err, queue.ErrSettled) || outputErr != nil || text != "paid" {
				t.Errorf("after a commit: got answer %v, output %q, error %v; want ErrSettled, paid", err, text, outputErr)
			}
		}
	}
}

// TestTxOutputSettledFirst: SetOutput comes too late there, and the handler's work is rolled back.
func TestTxOutputSettledFirst(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		return errors.Join(queue.SetOutput(ctx, "paid"), handle(ctx, tx, job))
	}), middleware.Tx(b.db, b.q, middleware.TxOptions{SettleFirst: true}))
	if err := h.HandleJob(queue.WithResults(t.Context()), b.claimOne()); err == nil || !strings.Contains(err.Error(), "SettleFirst") {
		t.Errorf("got error %v, want one about SettleFirst", err)
	}
	b.want(0, queue.StatusRunning, 1)
}
