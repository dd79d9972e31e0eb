package main

import (
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/examples/internal/demo/demotest"
	"github.com/errandhq/errand/queue"
)

func TestRun(t *testing.T) { demotest.Run(t, run) }

// opened is a shop with empty tables.
func opened(t *testing.T, config *gorm.Config) (dsn string, s *shop) {
	t.Helper()
	dsn = postgrestest.DSN(t)
	s, err := open(dsn, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.pool.Close() })
	if err := s.createTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dsn, s
}

// configs are gorm without its cache of prepared statements, and with it.
var configs = map[string]*gorm.Config{"plain": {}, "PrepareStmt": {PrepareStmt: true}}

// TestPlaceOrder: the order and its job come together, or not at all.
func TestPlaceOrder(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			dsn, s := opened(t, config)
			for range 2 {
				if err := s.placeOrder(t.Context(), "Ada"); err != nil {
					t.Fatal(err)
				}
				if err := s.placeOrder(t.Context(), "Mallory"); !errors.Is(err, demo.ErrDeclined) {
					t.Errorf("got %v, want %v", err, demo.ErrDeclined)
				}
			}
			demotest.WantAccount(t, dsn, "after two orders", demo.Account{Orders: 2, Other: 2})
		})
	}
}

// TestLost: a worker that comes too late writes no receipt.
func TestLost(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			dsn, s := opened(t, config)
			mux := queue.NewMux()
			SendReceipt.Handle(mux, s.sendReceipt)
			demotest.Lost(t, dsn, s.q, mux)
		})
	}
}

// TestTxDB: in a transaction of gorm, DB returns the pool: what is enqueued there outlives the rollback.
func TestTxDB(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			dsn, s := opened(t, config)
			err := s.db.Transaction(func(tx *gorm.DB) error {
				pool, err := tx.DB()
				if err != nil {
					return err
				}
				if err := s.q.Enqueue(t.Context(), pool, SendReceipt.New(Receipt{OrderID: 1})); err != nil {
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
}
