package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// weedTimeout is what a connection of the pool's that is alive takes to answer at most.
const weedTimeout = 3 * time.Second

// noteSilence notes that a call's time was up before the server had answered: where a
// network has swallowed one connection, it has swallowed those that lie idle beside it.
func (b *Backend) noteSilence(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		b.silent.Store(true)
	}
}

// weedSilent weeds, once for each time that a call has noted silence.
func (b *Backend) weedSilent(ctx context.Context) {
	if b.silent.CompareAndSwap(true, false) {
		b.weed(ctx)
	}
}

// weed tries the pool's idle connections, all at once, and has those dropped that do not answer.
// database/sql would try them one by one, each for as long as a call may take.
func (b *Backend) weed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, weedTimeout)
	defer cancel()
	conns := make([]*sql.Conn, b.db.Stats().Idle)
	var tries sync.WaitGroup
	for i := range conns {
		tries.Go(func() {
			conn, err := b.db.Conn(ctx) // pgx has tried it by then
			if err != nil {
				return
			}
			conns[i] = conn
			_ = conn.PingContext(ctx) // the driver knows a connection by it that has failed
		})
	}
	tries.Wait()
	for _, conn := range conns { // not earlier, so that none is tried twice and another not at all
		if conn != nil {
			_ = conn.Close()
		}
	}
}
