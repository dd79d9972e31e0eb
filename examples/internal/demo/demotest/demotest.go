// Package demotest tests the examples of database libraries, all in the same way.
package demotest

import (
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// Run plays an example's story, which checks its own account, and tests the handler for a job that
// its worker has lost.
func Run(t *testing.T, open demo.Open) {
	t.Run("story", func(t *testing.T) {
		if err := demo.Run(t.Context(), postgrestest.DSN(t), open, t.Output()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("lost", func(t *testing.T) { testLost(t, open) })
}

// OpenEmpty opens a shop in a fresh database with empty tables, and closes it when the test ends.
func OpenEmpty(t *testing.T, open demo.Open) (dsn string, shop demo.Shop) {
	t.Helper()
	dsn = postgrestest.DSN(t)
	if err := demo.CreateTables(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	shop, err := open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shop.Close)
	return dsn, shop
}

// testLost runs an example's handler for a job that its worker has lost: the handler must write
// nothing and return ErrLost. Then it runs the handler for the same job as its holder does.
func testLost(t *testing.T, open demo.Open) {
	dsn, shop := OpenEmpty(t, open)
	q, h := shop.Queue(), demo.Handler(shop)
	if err := q.Enqueue(t.Context(), nil, demo.SendReceipt.New(demo.Receipt{OrderID: 1})); err != nil {
		t.Fatal(err)
	}
	req := queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "test"}
	held, err := q.Claim(t.Context(), req)
	if err != nil || len(held) != 1 {
		t.Fatalf("Claim: %d jobs, %v", len(held), err)
	}
	stale := *held[0]
	stale.Fence--
	if err := h.HandleJob(t.Context(), &stale); !errors.Is(err, queue.ErrLost) {
		t.Errorf("handler of a lost job: got %v, want %v", err, queue.ErrLost)
	}
	WantAccount(t, dsn, "after a lost job", demo.Account{Other: 1, Runs: 1})
	if err := h.HandleJob(t.Context(), held[0]); !errors.Is(err, queue.ErrSettled) {
		t.Errorf("handler of the same job, held: got %v, want %v", err, queue.ErrSettled)
	}
	WantAccount(t, dsn, "after its holder's run", demo.Account{Receipts: 1, Completed: 1, Runs: 1})
}

// WantAccount compares what is in the database that dsn names with want.
func WantAccount(t *testing.T, dsn, when string, want demo.Account) {
	t.Helper()
	got, err := demo.ReadAccount(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s: got %+v, want %+v", when, got, want)
	}
}

// WantTxRequired expects that middleware.RequireTx accepts tx, and refuses pool before anything is
// written.
func WantTxRequired(t *testing.T, q queue.Queue, pool, tx queue.DB) {
	t.Helper()
	enqueuer := queue.ChainEnqueuer(q, middleware.RequireTx)
	refused := demo.SendReceipt.New(demo.Receipt{OrderID: 1})
	var bad *queue.InvalidError
	if err := enqueuer.Enqueue(t.Context(), pool, refused); !errors.As(err, &bad) || bad.Field != "DB" || refused.ID != 0 {
		t.Errorf("Enqueue on a %T: got job %d, %v; want none and an InvalidError for DB", pool, refused.ID, err)
	}
	accepted := demo.SendReceipt.New(demo.Receipt{OrderID: 2})
	if err := enqueuer.Enqueue(t.Context(), tx, accepted); err != nil || accepted.ID == 0 {
		t.Errorf("Enqueue on a %T: got job %d, %v; want a job", tx, accepted.ID, err)
	}
}
