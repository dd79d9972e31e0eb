package sqlite

import (
	"database/sql"
	"math"
	"slices"
)

// Reserve implements [queue.Pooled]. Handlers whose transactions take turns hold one connection at
// a time, however many handlers there are. With a pool of one they and the backend's calls take
// turns, so there is always one left.
func (b *Backend) Reserve(n int, dbs ...*sql.DB) (left int, release func()) {
	most := b.db.Stats().MaxOpenConnections
	if most == 0 {
		most = math.MaxInt
	}
	if n > 0 && slices.Contains(dbs, b.db) {
		most--
	}
	return max(most, 1), func() {}
}
