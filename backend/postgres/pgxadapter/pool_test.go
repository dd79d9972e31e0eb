package pgxadapter_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestPoolListens: a queue on stdlib.OpenDBFromPool is woken by what a transaction of pgx enqueues,
// holds one connection of the pool meanwhile, and leaves none behind that listens.
func TestPoolListens(t *testing.T) {
	pool := openPool(t, "cache_statement")
	_, q := overPool(t, pool)
	woken := make(chan struct{}, 1)
	wake := func(driver.Signal) {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	for range 3 {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- q.Listen(ctx, "w", []string{queue.DefaultQueue}, wake) }()
		await(t, woken) // it says so when it begins
		if _, err := q.Sleep(t.Context(), "w", []string{queue.DefaultQueue}); err != nil {
			t.Fatal(err)
		}

		tx := begin(t, pool)
		if err := q.Enqueue(t.Context(), pgxadapter.Tx(tx), newJobs(1)...); err != nil {
			t.Fatal(err)
		}
		commit(t, tx)
		await(t, woken)
		eventually(t, "only the listener has a connection", func() bool { return pool.Stat().AcquiredConns() == 1 })

		stop()
		if err := <-ended; err != nil {
			t.Errorf("Listen: %v", err)
		}
		eventually(t, "the listener's connection is back", func() bool { return pool.Stat().AcquiredConns() == 0 })
	}
	wantNoListener(t, pool)
}

func await(t *testing.T, woken chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Fatal("not woken")
	}
}

// wantNoListener looks at every connection that the pool may have.
func wantNoListener(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if got := value[int](t, pgxadapter.DB(conn), `SELECT count(*) FROM pg_listening_channels()`); got != 0 {
			t.Error("a connection of the pool still listens")
		}
	}
}
