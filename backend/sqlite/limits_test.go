package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/mattn/go-sqlite3"
	modernc "modernc.org/sqlite"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// shorten limits the texts of db's one connection to a million bytes.
func shorten(t *testing.T, db *sql.DB, driver string) {
	t.Helper()
	const limitLength, most = 0, 1_000_000
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if driver == "sqlite" {
		_, err = modernc.Limit(conn, limitLength, most)
	} else {
		err = conn.Raw(func(c any) error { c.(*sqlite3.SQLiteConn).SetLimit(limitLength, most); return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTooLongForARow: more than the driver accepts is bad input, and nothing is written.
func TestTooLongForARow(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{MaxPayload: 2 << 20})
		shorten(t, db, driver)
		long := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 1_100_000)...), '"')
		for _, key := range []string{"", "k"} {
			var bad *queue.InvalidError
			err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}, &queue.Job{Kind: "test", Key: key, Payload: long})
			if !errors.As(err, &bad) || bad.Field != "Payload" {
				t.Errorf("key %q: got %v, want an InvalidError for Payload", key, err)
			}
		}
		if n := value[int](t, db, `SELECT count(*) FROM errand_jobs`); n != 0 {
			t.Errorf("%d jobs written, want 0", n)
		}
	})
}

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

// TestBusyTimeoutStays: a call that has committed succeeds, though its connection cannot be restored. That is not used again.
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
	if got := value[int](t, db, `PRAGMA busy_timeout`); got != 10_000 {
		t.Errorf("busy_timeout of a connection of the pool: %d, want 10000", got)
	}
}
