package queuetest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func TestThroughTx(t *testing.T) {
	q := newLetters(t, letter{UserID: 42})
	tx, other := begin(t, q), begin(t, q)
	through := func(db queue.DB) func(t testing.TB) {
		return func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Through(db)) }
	}
	const none = "Fatal: no job email.welcome with {\"UserID\":42} was enqueued; nearest of "
	wantMessage(t, "", through(nil))
	wantMessage(t, none+"1:\n  job 1 (pending): enqueued through nil, want memory.Tx", through(tx))

	enqueue(t, q, tx, letters.New(letter{UserID: 42}))
	wantMessage(t, "", through(tx))
	wantMessage(t, none+"2:\n  job 2 (pending): enqueued through another memory.Tx\n"+
		"  job 1 (pending): enqueued through nil, want memory.Tx", through(other))
	wantMessage(t, "Error: 1 job email.welcome was enqueued, want none:\n  job 2 (pending): {\"UserID\":42}",
		func(t testing.TB) { queuetest.WantNoJob(t, q, letters, queuetest.Through(tx)) })
	wantMessage(t, `Fatal: 1 job email.welcome with {"UserID":42} was enqueued, want 2:
  job 1 (pending)
nearest of 1 more:
  job 2 (pending): in a transaction that has not committed`,
		func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Times(2)) })

	if err := errors.Join(tx.Commit(), other.Rollback()); err != nil {
		t.Fatalf("end of the transactions: %v", err)
	}
	wantMessage(t, "", through(tx))
	queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Times(2))
}

func TestThroughTxRolledBack(t *testing.T) {
	q := newLetters(t)
	tx := begin(t, q)
	enqueue(t, q, tx, letters.New(letter{UserID: 42}))
	if claimed, err := q.ClaimTx(t.Context(), tx, request(1)); err != nil || claimed == nil {
		t.Fatalf("ClaimTx: got %v, error %v", claimed, err)
	}
	if got := queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Through(tx)); got.Status != queue.StatusCompleted {
		t.Errorf("status within the transaction that claimed the job: got %s, want completed", got.Status)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatalf("Rollback: %v", err)
	}
	wantMessage(t, "Fatal: no job email.welcome was enqueued, nor any other",
		func(t testing.TB) { queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Through(tx)) })
}

// handle is a foreign handle by value, of a kind that cannot be compared.
type handle struct {
	foreign
	names []string
}

func TestThroughForeignHandle(t *testing.T) {
	q := newLetters(t)
	mine, other := new(sql.Tx), new(sql.Tx)
	enqueue(t, q, handle{names: []string{"a"}}, letters.New(letter{UserID: 41}))
	enqueue(t, q, mine, letters.New(letter{UserID: 42}))
	const none = "Fatal: no job email.welcome with {\"UserID\":42} was enqueued; nearest of 2:\n"
	const first = "\n  job 1 (pending): UserID: got 41, want 42; enqueued through "
	tests := []struct {
		db   queue.DB
		says string
	}{
		{mine, ""},
		{other, none + "  job 2 (pending): enqueued through another *sql.Tx" + first + "queuetest_test.handle, want *sql.Tx"},
		{new(sql.DB), none + "  job 2 (pending): enqueued through *sql.Tx, want *sql.DB" + first + "queuetest_test.handle, want *sql.DB"},
		{handle{}, none + "  job 2 (pending): enqueued through *sql.Tx, want queuetest_test.handle" + first + "another queuetest_test.handle"},
		{nil, none + "  job 2 (pending): enqueued through *sql.Tx, want nil" + first + "queuetest_test.handle, want nil"},
	}
	for _, tt := range tests {
		wantMessage(t, tt.says, func(t testing.TB) {
			queuetest.WantJob(t, q, letters, letter{UserID: 42}, queuetest.Through(tt.db))
		})
	}
}

// embedding has what the queue in memory has, and wraps nothing.
type embedding struct{ *queuetest.Queue }

func TestWantJobOfWrappedQueue(t *testing.T) {
	q := newLetters(t)
	tx := begin(t, q)
	enqueue(t, q, tx, letters.New(letter{UserID: 42}))
	same := func(next queue.Enqueuer) queue.Enqueuer {
		return queue.EnqueuerFunc(func(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
			return next.Enqueue(ctx, db, jobs...)
		})
	}
	for _, wrapped := range []queue.Enqueuer{q, queue.ChainEnqueuer(q, same), embedding{q}, queue.ChainEnqueuer(embedding{q}, same, same)} {
		queuetest.WantJob(t, wrapped, letters, letter{UserID: 42}, queuetest.Through(tx))
	}
}
