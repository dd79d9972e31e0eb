package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// faulty is a driver's connector whose connections call fail once, in place of the first statement
// that begins with a text.
type faulty struct {
	driver driver.Driver
	dsn    string
	text   atomic.Pointer[string] // nil for no statement
	fail   func()
}

func (f *faulty) Driver() driver.Driver { return f.driver }

func (f *faulty) Connect(context.Context) (driver.Conn, error) {
	conn, err := f.driver.Open(f.dsn)
	return faultyConn{conn, f}, err
}

// faultyConn has only what each driver has, so database/sql prepares each statement.
type faultyConn struct {
	driver.Conn
	connector *faulty
}

func (c faultyConn) Prepare(query string) (driver.Stmt, error) {
	if text := c.connector.text.Load(); text != nil && strings.HasPrefix(query, *text) {
		c.connector.text.Store(nil)
		c.connector.fail()
	}
	return c.Conn.Prepare(query)
}

// poolOf is an application's wrapper of its pool.
type poolOf struct{ *sql.DB }

// TestPanicEndsTurn: a call that a panic or runtime.Goexit leaves while it connects, prepares or
// executes lets the next writer in, and leaves no connection behind. While a driver runs a query on
// a connection or a transaction, database/sql itself keeps a lock after a panic.
func TestPanicEndsTurn(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		file := dsn(t)
		db := open(t, name, file)
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{LockTimeout: 2 * time.Second})
		connector := &faulty{driver: db.Driver(), dsn: file}
		other := sql.OpenDB(connector)
		t.Cleanup(func() { other.Close() })
		enqueueOn := func(db queue.DB) func() { return func() { _ = q.Enqueue(t.Context(), db, &queue.Job{Kind: "test"}) } }
		beginTx := func() { _, _, _ = q.BeginTx(t.Context(), other, nil) }
		for _, c := range []struct {
			where, text string
			call        func()
		}{
			{"a handle without a pool", "", enqueueOn(poolOf{})},
			{"connecting", "PRAGMA busy_timeout = 0", enqueueOn(other)},
			{"writing", "INSERT", enqueueOn(other)},
			{"beginning", "PRAGMA busy_timeout = 0", beginTx},
			{"a transaction that has begun", "PRAGMA busy_timeout = 30000", beginTx},
		} {
			for how, fail := range map[string]func(){"panic": func() { panic("of the driver") }, "Goexit": runtime.Goexit} {
				if c.text != "" {
					connector.fail = fail
					connector.text.Store(&c.text)
				}
				if isDone(t, c.call) {
					t.Errorf("%s, %s: the call returned, want it left", c.where, how)
				}
				connector.text.Store(nil)
				if n := other.Stats().InUse; n != 0 {
					t.Errorf("%s, %s: %d connections in use, want none", c.where, how, n)
				}
				if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}); err != nil {
					t.Fatalf("%s, %s: the next Enqueue: %v", c.where, how, err)
				}
			}
		}
	})
}

// isDone calls f in a goroutine of its own and reports whether f returned.
func isDone(t *testing.T, f func()) (done bool) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		f()
		done = true
	}()
	select {
	case <-ended:
		return done
	case <-time.After(10 * time.Second):
		t.Fatal("a call that fails hangs")
		return false
	}
}
