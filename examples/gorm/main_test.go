package main

import (
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/examples/internal/demo/demotest"
)

// forEachConfig runs a test with gorm's cache of prepared statements, and without it.
func forEachConfig(t *testing.T, test func(t *testing.T, open demo.Open)) {
	for name, config := range map[string]*gorm.Config{"plain": {}, "PrepareStmt": {PrepareStmt: true}} {
		t.Run(name, func(t *testing.T) {
			test(t, func(dsn string) (demo.Shop, error) { return openWith(dsn, config) })
		})
	}
}

func TestShop(t *testing.T) { forEachConfig(t, demotest.Run) }

// TestTxDB: in a transaction of gorm, DB returns the pool. A job enqueued there outlives the
// rollback.
func TestTxDB(t *testing.T) {
	forEachConfig(t, func(t *testing.T, open demo.Open) {
		dsn, opened := demotest.OpenEmpty(t, open)
		s := opened.(*shop)
		err := s.db.Transaction(func(tx *gorm.DB) error {
			pool, err := tx.DB()
			if err != nil {
				return err
			}
			job := demo.SendReceipt.New(demo.Receipt{OrderID: 1})
			if err := s.q.Enqueue(t.Context(), pool, job); err != nil {
				return err
			}
			return demo.ErrDeclined
		})
		if !errors.Is(err, demo.ErrDeclined) {
			t.Errorf("got %v, want %v", err, demo.ErrDeclined)
		}
		demotest.WantAccount(t, dsn, "after the rollback", demo.Account{Other: 1})
	})
}

// TestRequireTx: what gorm runs statements on shows whether it is a transaction.
func TestRequireTx(t *testing.T) {
	forEachConfig(t, func(t *testing.T, open demo.Open) {
		_, opened := demotest.OpenEmpty(t, open)
		s := opened.(*shop)
		err := s.db.Transaction(func(tx *gorm.DB) error {
			demotest.WantTxRequired(t, s.q, s.db.Statement.ConnPool, tx.Statement.ConnPool)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
