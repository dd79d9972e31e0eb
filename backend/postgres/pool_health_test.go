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

// network is a driver whose connections can be swallowed: existing ones then never answer again.
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

func (n *network) swallow() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.once.Do(func() { close(c.gone) })
	}
}

type netConn struct {
	once   sync.Once
	gone   chan struct{}
	broken bool
}

// answer waits for one.
func (c *netConn) answer(ctx context.Context) error {
	select {
	case <-c.gone:
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

// TestSwallowedPool: if the network has swallowed all connections of a pool, only the call that
// finds out waits for long, however many there are.
func TestSwallowedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle, most = 20, 5 * time.Second
		n := &network{}
		db := sql.OpenDB(n)
		defer db.Close()
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
		n.swallow()
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
