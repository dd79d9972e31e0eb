//go:build cgo

package sqlite_test

import (
	"database/sql"
	"sync/atomic"
	"testing"

	"github.com/mattn/go-sqlite3"

	"github.com/errandhq/errand/backend/sqlite"
)

// stubborn is a driver whose connections do not take their busy_timeout back while it is set.
var stubborn atomic.Bool

func init() {
	sql.Register("stubborn", &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		c.RegisterAuthorizer(func(op int, name, value, _ string) int {
			if stubborn.Load() && op == sqlite3.SQLITE_PRAGMA && name == "busy_timeout" && value != "0" {
				return sqlite3.SQLITE_DENY
			}
			return sqlite3.SQLITE_OK
		})
		return nil
	}})
}

// TestBusyTimeoutStays: a call that has committed succeeds, though its connection cannot be
// restored. That is not used again.
func TestBusyTimeoutStays(t *testing.T) {
	db, q := fresh(t, "stubborn", sqlite.Options{})
	db.SetMaxOpenConns(1)
	stubborn.Store(true)
	err := q.Enqueue(t.Context(), nil, jobs(1)...)
	stubborn.Store(false)
	if err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if n := value[int](t, db, `SELECT count(*) FROM errand_jobs`); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	if got := value[int](t, db, `PRAGMA busy_timeout`); got != 30_000 {
		t.Errorf("busy_timeout of a connection of the pool: %d, want 30000", got)
	}
}
