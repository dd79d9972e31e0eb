package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Dead connections in the pool.
//
// Problem: a fault that breaks one connection usually breaks the idle ones too. database/sql
// notices one per statement. If a network swallows packets, that takes the statement's whole time.
// Rule: before a statement that follows a broken or an unanswered one, all idle connections are
// pinged at once, and those that do not answer leave the pool. The listener does so before it
// reconnects. Bounds: pingTimeout a time, once for each time that a connection has failed. Shown
// by: TestSwallowedPool, TestKilledPool; the lab's scenarios that freeze and partition the network.

// pingTimeout is how long a connection that is alive takes to answer at most.
const pingTimeout = 3 * time.Second

// poolHealth notes whether idle connections may be dead. Its zero value says that they are not.
type poolHealth struct{ suspect atomic.Bool }

// note notes whether the error is of a connection that is broken, or that did not answer in time.
func (h *poolHealth) note(err error) {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, context.DeadlineExceeded) {
		h.suspect.Store(true)
	}
}

// dropDeadConns drops the pool's dead connections, once for each time that one was noted.
func (h *poolHealth) dropDeadConns(ctx context.Context, pool *sql.DB) {
	if h.suspect.CompareAndSwap(true, false) {
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
