// Package demotest tests the examples of database libraries, all in the same way.
package demotest

import (
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/queue"
)

// Run runs an example, which checks its own account.
func Run(t *testing.T, run demo.Run) {
	t.Helper()
	if err := run(t.Context(), postgrestest.DSN(t), t.Output()); err != nil {
		t.Fatal(err)
	}
}

// Lost runs an example's handler, in a database with its tables and no rows, for a job that its
// worker no longer holds: it must write nothing and say so. Then it runs it for the
// same job as its holder does.
func Lost(t *testing.T, dsn string, q queue.Queue, h queue.Handler) {
	t.Helper()
	job := &queue.Job{Kind: "receipt.send", Payload: []byte(`{"order_id": 1}`)}
	if err := q.Enqueue(t.Context(), nil, job); err != nil {
		t.Fatal(err)
	}
	held, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "test"})
	if err != nil || len(held) != 1 {
		t.Fatalf("Claim: %d jobs, %v", len(held), err)
	}
	stale := *held[0]
	stale.Fence--
	if err := h.HandleJob(t.Context(), &stale); !errors.Is(err, queue.ErrLost) {
		t.Errorf("handler of a lost job: got %v, want %v", err, queue.ErrLost)
	}
	WantAccount(t, dsn, "after a lost job", demo.Account{Other: 1, Runs: 1})
	if err := h.HandleJob(t.Context(), held[0]); !errors.Is(err, queue.Settled) {
		t.Errorf("handler of the same job, held: got %v, want %v", err, queue.Settled)
	}
	WantAccount(t, dsn, "after its holder's turn", demo.Account{Receipts: 1, Completed: 1, Runs: 1})
}

// WantAccount compares what is in a database.
func WantAccount(t *testing.T, dsn, when string, want demo.Account) {
	t.Helper()
	got, err := demo.Read(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s: got %+v, want %+v", when, got, want)
	}
}
