package sqlite_test

import (
	"database/sql"
	"math"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
)

// TestReserve: handlers take turns, so the pool of one connection works, too.
func TestReserve(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	other := new(sql.DB)
	for _, c := range []struct {
		most int
		dbs  []*sql.DB
		left int
	}{
		{0, nil, math.MaxInt}, {1, nil, 1}, {1, []*sql.DB{db}, 1}, {2, []*sql.DB{other}, 2}, {2, []*sql.DB{db}, 1}, {5, []*sql.DB{other, db}, 4},
	} {
		db.SetMaxOpenConns(c.most)
		left, release := q.Reserve(10, c.dbs...)
		if left != c.left {
			t.Errorf("of %d connections with handlers of %d pools: got %d left, want %d", c.most, len(c.dbs), left, c.left)
		}
		release()
	}
}
