package main

import (
	"context"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/examples/internal/demo/demotest"
)

func TestShop(t *testing.T) { demotest.Run(t, open) }

// TestBunTxItself: bun.Tx has the methods of a queue.DB, but it reads every query as one of bun's,
// whose parameters are question marks, and drops errand's arguments. That is always an error.
func TestBunTxItself(t *testing.T) {
	dsn, opened := demotest.OpenEmpty(t, open)
	s := opened.(*shop)
	err := s.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return s.q.Enqueue(ctx, tx, demo.SendReceipt.New(demo.Receipt{OrderID: 1}))
	})
	if want := "expected 9 arguments, got 0"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Enqueue with bun.Tx: got %v, want %q", err, want)
	}
	demotest.WantAccount(t, dsn, "after Enqueue with bun.Tx", demo.Account{})
}

// TestRequireTx: the *sql.Tx within bun's transaction is one, bun's DB is a pool.
func TestRequireTx(t *testing.T) {
	_, opened := demotest.OpenEmpty(t, open)
	s := opened.(*shop)
	err := s.db.RunInTx(t.Context(), nil, func(_ context.Context, tx bun.Tx) error {
		demotest.WantTxRequired(t, s.q, s.db, tx.Tx)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
