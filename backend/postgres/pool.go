package postgres

import (
	"database/sql"
	"math"
	"slices"
	"sync"
)

// Reserve implements [queue.Pooled]. With Options.Listen one connection counts as the listener's,
// as pgxlisten's is, unless the pool is limited to one connection: then nothing listens.
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
	case most > 1 && b.options.Listen != nil:
		most--
	}
	return most - int(held), release
}
