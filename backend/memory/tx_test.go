package memory_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
)

func begin(t *testing.T, q *memory.Queue) memory.Tx {
	t.Helper()
	tx, err := q.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return tx
}

func TestTxThatHasEnded(t *testing.T) {
	q := memory.New(memory.Options{})
	for _, end := range []func(memory.Tx) error{memory.Tx.Commit, memory.Tx.Rollback} {
		tx := begin(t, q)
		if err := end(tx); err != nil {
			t.Fatalf("end of a transaction: %v", err)
		}
		_, settleErr := q.Settle(t.Context(), tx, queue.Outcome{Job: job("k")})
		_, claimErr := q.ClaimTx(t.Context(), tx, request(1))
		for what, err := range map[string]error{
			"Commit": tx.Commit(), "Rollback": tx.Rollback(),
			"Enqueue": q.Enqueue(t.Context(), tx, job("k")), "Settle": settleErr, "ClaimTx": claimErr,
		} {
			if !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%s in a transaction that has ended: got error %v, want sql.ErrTxDone", what, err)
			}
		}
	}
	claim(t, q, 1, 0)
}

func TestTxRollsBackWithItsContext(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := q.Begin(ctx)
		if err != nil {
			t.Fatalf("Begin: %v", err)
		}
		enqueue(t, q, tx, &queue.Job{Kind: "k", Key: "a"})
		cancel()
		synctest.Wait()
		next := &queue.Job{Kind: "k", Key: "a"}
		enqueue(t, q, nil, next)
		if next.Duplicate {
			t.Errorf("Enqueue of a key after its transaction's context ended: got Duplicate, want it written")
		}
		if err := tx.Commit(); err == nil {
			t.Errorf("Commit after the context ended: got no error")
		}
		claim(t, q, 10, 1)
		if _, err := q.Begin(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Begin with a cancelled context: got error %v, want context.Canceled", err)
		}
	})
}

func TestTxIsNoDatabase(t *testing.T) {
	q := memory.New(memory.Options{})
	tx := begin(t, q)
	if _, err := tx.ExecContext(t.Context(), "DELETE FROM jobs"); err == nil {
		t.Errorf("ExecContext: got no error")
	}
	rows, err := tx.QueryContext(t.Context(), "SELECT 1")
	if err == nil {
		defer rows.Close()
		t.Errorf("QueryContext: got rows and no error: %v", rows.Err())
	}
	other := memory.New(memory.Options{})
	if err := other.Enqueue(t.Context(), tx, job("k")); err == nil {
		t.Errorf("Enqueue in another Queue's transaction: got no error")
	}
	for _, db := range []queue.DB{nil, foreign{}} {
		if _, err := q.ClaimTx(t.Context(), db, request(1)); err == nil {
			t.Errorf("ClaimTx in %T: got no error", db)
		}
	}
}

// TestWaitsForTx: a call that needs a row of an open transaction waits, until that ends or the
// context does.
func TestWaitsForTx(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		enqueue(t, q, nil, job("k"))
		held := claim(t, q, 1, 1)[0]
		tx := begin(t, q)
		settle(t, q, tx, queue.Outcome{Job: held, Action: queue.Done})
		enqueue(t, q, tx, &queue.Job{Kind: "k", Key: "a"})

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := q.Settle(ctx, nil, queue.Outcome{Job: held}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Settle beside an open transaction: got error %v, want DeadlineExceeded", err)
		}
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("Settle beside an open transaction: waited %v, want a minute", waited)
		}
		errs := make(chan error, 1)
		second := &queue.Job{Kind: "k", Key: "a"}
		go func() { errs <- q.Enqueue(t.Context(), nil, second) }()
		synctest.Wait()
		if len(errs) != 0 {
			t.Fatalf("Enqueue of an open transaction's key returned %v, want it to wait", <-errs)
		}
		if err := tx.Commit(); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		if err := <-errs; err != nil || !second.Duplicate {
			t.Errorf("Enqueue after that committed: got Duplicate %v, error %v; want true", second.Duplicate, err)
		}
	})
}

// TestExtendDoesNotWait: a heartbeat passes a job whose handler is settling it.
func TestExtendDoesNotWait(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		enqueue(t, q, nil, job("k"))
		held := claim(t, q, 1, 1)[0]
		tx := begin(t, q)
		settle(t, q, tx, queue.Outcome{Job: held, Action: queue.Done})
		if lost, _, err := q.Extend(t.Context(), 5*time.Hour, held); err != nil || len(lost) != 0 {
			t.Fatalf("Extend beside an open transaction: lost %d, error %v; want neither", len(lost), err)
		}
		time.Sleep(6 * time.Hour)
		reclaim(t, q, "while the transaction is open", 0)
		if err := tx.Rollback(); err != nil {
			t.Fatalf("Rollback: %v", err)
		}
		reclaim(t, q, "after the rollback", 1)
	})
}

func TestClaimTxSeesItsOwn(t *testing.T) {
	q := memory.New(memory.Options{})
	enqueue(t, q, nil, job("first"))
	tx := begin(t, q)
	enqueue(t, q, tx, &queue.Job{Kind: "urgent", Priority: -1}, &queue.Job{Kind: "later", Delay: time.Hour})
	for _, want := range []string{"urgent", "first", ""} {
		got, err := q.ClaimTx(t.Context(), tx, request(1))
		if err != nil {
			t.Fatalf("ClaimTx: %v", err)
		}
		if got == nil {
			got = job("")
		}
		if got.Kind != want {
			t.Errorf("ClaimTx beside what its transaction enqueued: got %q, want %q", got.Kind, want)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatalf("Rollback: %v", err)
	}
	if got := claim(t, q, 10, 1)[0].Kind; got != "first" {
		t.Errorf("claim after rollback: got %q, want first", got)
	}
}
