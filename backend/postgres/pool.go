package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/errandhq/errand/internal/handle"
)

// Reserve implements [driver.Pooled]. With Options.Listen one connection counts as the listener's,
// as pgxlisten's is, unless the pool is limited to one connection, and handlers hold none: then
// nothing listens.
func (b *Backend) Reserve(n int, dbs ...*sql.DB) (left int, release func()) {
	if !slices.Contains(dbs, b.db) {
		n = 0
	}
	held := b.reserved.Add(int64(n))
	release = sync.OnceFunc(func() { b.reserved.Add(int64(-n)) })
	most := b.db.Stats().MaxOpenConnections
	switch {
	case most == 0:
		return math.MaxInt, release
	case b.options.Listen != nil && (most > 1 || held > 0):
		most--
	}
	return most - int(held), release
}

// explainNoConn returns err, the error of a call that got no connection of the pool. If the call
// ran out of time, the error says how many connections are in use. A pool of pgx with a limit of
// its own counts those that wait for that limit as being opened.
func explainNoConn(pool handle.Connector, err error) error {
	counted, ok := pool.(interface{ Stats() sql.DBStats })
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	stats := counted.Stats()
	switch {
	case stats.MaxOpenConnections == 0:
		return fmt.Errorf("no connection of the pool was free in time, %d are in use or being opened: %w", stats.InUse, err)
	case stats.InUse == stats.MaxOpenConnections:
		return fmt.Errorf("all %d connections of the pool are in use: %w", stats.InUse, err)
	}
	return err
}
