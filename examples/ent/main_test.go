package main

import (
	"testing"

	"github.com/errandhq/errand/examples/internal/demo/demotest"
)

func TestShop(t *testing.T) { demotest.Run(t, open) }

// TestRequireTx: ent's Tx shows that it is a transaction, its Client does not.
func TestRequireTx(t *testing.T) {
	_, opened := demotest.OpenEmpty(t, open)
	s := opened.(*shop)
	tx, err := s.client.Tx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	demotest.WantTxRequired(t, s.q, s.client, tx)
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}
