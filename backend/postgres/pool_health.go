package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Dead connections in the pool.
//
// Problem: where a network swallows one connection, it swallows those that lie idle beside it, and
// database/sql finds out about one a call, each after that call's whole time.
// Rule: after a call that got no answer in time, the next call first pings all idle connections at
// once, and those that do not answer leave the pool. The listener does so before it reconnects.
// Bounds: pingTimeout a time, once for each time that calls have got no answer.
// Shown by: TestSwallowedPool; the lab's scenarios that freeze and partition the network.

// pingTimeout is how long a connection that is alive takes to answer at most.
const pingTimeout = 3 * time.Second

// poolHealth notes whether idle connections may be dead. Its zero value says that they are not.
type poolHealth struct{ silent atomic.Bool }

// noteTimeout notes whether the error is of a call whose time was up before the server answered.
func (h *poolHealth) noteTimeout(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		h.silent.Store(true)
	}
}

// dropDeadConns drops the pool's dead connections, once for each time that a timeout was noted.
func (h *poolHealth) dropDeadConns(ctx context.Context, pool *sql.DB) {
	if h.silent.CompareAndSwap(true, false) {
		dropDeadConns(ctx, pool)
	}
}

// dropDeadConns pings the pool's idle connections, all at once, and drops those that do not answer.
func dropDeadConns(ctx context.Context, pool *sql.DB) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conns := make([]*sql.Conn, pool.Stats().Idle)
	var pings sync.WaitGroup
	for i := range conns {
		pings.Go(func() {
			conn, err := pool.Conn(ctx) // pgx has pinged it by then
			if err != nil {
				return
			}
			conns[i] = conn
			_ = conn.PingContext(ctx) // the driver drops a connection whose ping has failed
		})
	}
	pings.Wait()
	for _, conn := range conns { // not earlier: one would be pinged twice and another not at all
		if conn != nil {
			_ = conn.Close()
		}
	}
}
