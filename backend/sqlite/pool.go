package sqlite

import (
	"database/sql"
	"math"
	"slices"
)

// Reserve implements [driver.Pooled]. Handlers whose transactions take turns hold one connection at
// a time, however many handlers there are. If the pool has only one connection, the handlers and
// the backend's calls take turns to use it. So at least one is always left.
func (b *Backend) Reserve(n int, dbs ...*sql.DB) (left int, release func()) {
	limit := b.db.Stats().MaxOpenConnections
	if limit == 0 {
		limit = math.MaxInt
	}
	if n > 0 && slices.Contains(dbs, b.db) {
		limit--
	}
	return max(limit, 1), func() {}
}
