package engine

import (
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/queue/driver"
)

// fewConns is how many connections the backend needs so that a heartbeat does not wait for a claim.
const fewConns = 2

// reserve tells the backend how many connections the handlers hold, until the caller calls release.
// If none would be left for the backend, reserve returns an error: leases would expire while Extend
// waits. If few would be left, it logs a warning.
func (r *run) reserve(dbs []*sql.DB) (release func(), err error) {
	pool, ok := driver.As[driver.Pooled](r.Backend)
	if !ok {
		return func() {}, nil
	}
	left, release := pool.Reserve(r.Concurrency, dbs...)
	held := "no handler is known to hold one"
	if len(dbs) > 0 {
		held = fmt.Sprintf("each of %d handlers holds one", r.Concurrency)
	}
	if left < 1 {
		release()
		return nil, invalid("Worker.Backend", "its pool has too few connections: %s, the listener holds one, "+
			"and claims, settling and heartbeats need %d; %s, or lower Concurrency (docs/operations.md#pools)", held, fewConns, r.enoughConns(left))
	}
	if left < fewConns {
		r.Logger.Warn("errand: the pool has few connections; claims, settling and heartbeats will wait for one another; "+
			r.enoughConns(left)+" (docs/operations.md#pools)", "free", left, "held", held)
	}
	return release, nil
}

// enoughConns says how high a limit of the backend's pool is enough, of which left connections are
// left now.
func (r *run) enoughConns(left int) string {
	missing := fewConns - left
	if t, ok := driver.As[driver.Tabled](r.Backend); ok {
		if limit := t.Tables().DB.Stats().MaxOpenConnections; limit > 0 {
			return fmt.Sprintf("a limit of %d is enough (SetMaxOpenConns)", limit+missing)
		}
	}
	return fmt.Sprintf("a limit that is higher by %d is enough (SetMaxOpenConns)", missing)
}
