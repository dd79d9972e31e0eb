package main

import (
	"context"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/examples/internal/demo/demotest"
	"github.com/errandhq/errand/queue"
)

func TestRun(t *testing.T) { demotest.Run(t, run) }

// TestLost: a worker that comes too late writes no receipt.
func TestLost(t *testing.T) {
	dsn := postgrestest.DSN(t)
	s, err := open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.pool.Close()
	if err := s.createTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	mux := queue.NewMux()
	SendReceipt.Handle(mux, s.sendReceipt)
	demotest.Lost(t, dsn, s.q, mux)
}

// TestBunTxItself: bun.Tx has the methods of a queue.DB, but reads a query as one of bun's,
// whose parameters are question marks: errand's arguments are dropped. That is an error, always.
func TestBunTxItself(t *testing.T) {
	dsn := postgrestest.DSN(t)
	s, err := open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.pool.Close()
	if err := s.createTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = s.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return s.q.Enqueue(ctx, tx, SendReceipt.New(Receipt{OrderID: 1}))
	})
	if want := "expected 9 arguments, got 0"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Enqueue with bun.Tx: got %v, want %q", err, want)
	}
	demotest.WantAccount(t, dsn, "after Enqueue with bun.Tx", demo.Account{})
}
