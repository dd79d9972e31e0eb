package main

import (
	"testing"

	"github.com/errandhq/errand/backend/postgrestest"
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
