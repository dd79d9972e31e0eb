package backendtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var beginTxCases = []testCase{
	{"commit reveals", hasTxBeginner, testBeginTxCommit},
	{"ending rolls back", hasTxBeginner, testBeginTxEnd},
	{"others wait for the end", hasTxBeginner, testBeginTxWait},
	{"its context ends the wait", hasTxBeginner, testBeginTxCancelled},
}

func beginTurn(t *testing.T, ctx context.Context, h Harness) (tx *sql.Tx, end func()) {
	t.Helper()
	b, _ := driver.As[driver.TxBeginner](h.Queue)
	tx, end, err := b.BeginTx(ctx, nil, nil)
	if err != nil {
		t.Fatalf("BeginTx: %v", err)
	}
	t.Cleanup(end)
	return tx, end
}

func testBeginTxCommit(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	held := claimAll(t, h, 1)
	tx, end := beginTurn(t, t.Context(), h)
	next := newJob()
	enqueueIn(t, h, tx, next)
	lost, err := h.Queue.Settle(t.Context(), tx, queue.Outcome{Job: held[0]})
	if err != nil || len(lost) != 0 {
		t.Fatalf("Settle: lost %v, %v, want none", lost, err)
	}
	commit(t, tx)
	end()
	end() // does nothing
	wantSameIDs(t, "claim after commit", claimAll(t, h, 1), []*queue.Job{next})
}

func testBeginTxEnd(t *testing.T, h Harness) {
	tx, end := beginTurn(t, t.Context(), h)
	enqueueIn(t, h, tx, newJob())
	end()
	if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("Commit after the end: %v, want %v", err, sql.ErrTxDone)
	}
	claimNone(t, h, "after the end without a commit")
}

func testBeginTxWait(t *testing.T, h Harness) {
	tx, end := beginTurn(t, t.Context(), h)
	enqueueIn(t, h, tx, newJob())
	enqueued := make(chan error, 1)
	go func() { enqueued <- h.Queue.Enqueue(t.Context(), nil, newJob()) }()
	select {
	case err := <-enqueued:
		t.Errorf("Enqueue beside the transaction returned %v, want that it waits", err)
	case <-time.After(50 * time.Millisecond):
		commit(t, tx)
		end()
		if err := <-enqueued; err != nil {
			t.Errorf("Enqueue after the transaction: %v", err)
		}
	}
	claimAll(t, h, 2)
}

func testBeginTxCancelled(t *testing.T, h Harness) {
	_, end := beginTurn(t, t.Context(), h)
	b, _ := driver.As[driver.TxBeginner](h.Queue)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := b.BeginTx(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("BeginTx beside another: %v, want that its context has ended", err)
	}
	end()
	_, end = beginTurn(t, t.Context(), h)
	end()
}
