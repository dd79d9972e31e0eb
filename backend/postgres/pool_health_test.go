package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// network is a driver whose connections can be swallowed or cut: existing ones then never answer
// again, or fail at once.
type network struct {
	mu    sync.Mutex
	conns []*netConn
}

func (n *network) Connect(context.Context) (driver.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &netConn{gone: make(chan struct{})}
	n.conns = append(n.conns, c)
	return c, nil
}

func (n *network) Driver() driver.Driver { return nil }

// fail swallows all connections, or cuts them.
func (n *network) fail(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.once.Do(func() { c.cut = cut; close(c.gone) })
	}
}

type netConn struct {
	once   sync.Once
	gone   chan struct{}
	cut    bool
	broken bool
}

// answer waits for one.
func (c *netConn) answer(ctx context.Context) error {
	select {
	case <-c.gone:
		if c.cut {
			c.broken = true
			return driver.ErrBadConn
		}
		<-ctx.Done()
		c.broken = true
		return ctx.Err()
	default:
		return nil
	}
}

func (c *netConn) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	return noRows{}, c.answer(ctx)
}

func (c *netConn) Ping(ctx context.Context) error         { return c.answer(ctx) }
func (c *netConn) IsValid() bool                          { return !c.broken }
func (*netConn) Prepare(string) (driver.Stmt, error)      { return nil, errors.ErrUnsupported }
func (*netConn) Begin() (driver.Tx, error)                { return nil, errors.ErrUnsupported }
func (*netConn) Close() error                             { return nil }
func (*netConn) CheckNamedValue(*driver.NamedValue) error { return nil }

type noRows struct{}

func (noRows) Columns() []string         { return make([]string, 13) }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

// idlePool returns a pool with idle connections, and a backend on it.
func idlePool(t *testing.T, idle int) (*network, *sql.DB, *postgres.Backend) {
	n := &network{}
	db := sql.OpenDB(n)
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(idle)
	var conns []*sql.Conn
	for range idle {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.Close()
	}
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q.TrustDriver()
	return n, db, q
}

// TestKilledPool: if the server has ended all connections of a pool, however many, a call succeeds.
func TestKilledPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, db, q := idlePool(t, 100)
		n.fail(true)
		job := &queue.Job{ID: 1, Fence: 1, Worker: "w"}
		if _, _, err := q.Extend(t.Context(), time.Minute, job); err != nil {
			t.Errorf("Extend: %v", err)
		}
		if left := db.Stats().Idle; left != 1 {
			t.Errorf("%d connections are left idle, want the new one", left)
		}
	})
}

// TestSwallowedPool: if the network has swallowed all connections of a pool, only the call that
// finds out waits for long, however many there are.
func TestSwallowedPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 5 * time.Second
		n, db, q := idlePool(t, 20)
		n.fail(false)
		claim := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Minute, Worker: "w"})
			return err
		}
		if err := claim(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first claim: got %v, want %v", err, context.DeadlineExceeded)
		}
		begun := time.Now()
		if err := claim(); err != nil || time.Since(begun) > most {
			t.Errorf("the second claim: got %v after %v, want nil within %v", err, time.Since(begun), most)
		}
		if left := db.Stats().Idle; left != 1 {
			t.Errorf("%d connections are left idle, want the new one", left)
		}
	})
}
