package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// stale is a driver whose first connections, so many of them, are broken when they are used.
type stale struct{ left int }

// errUnsent is an error as pgx has them.
type errUnsent struct{}

func (errUnsent) Error() string     { return "write failed" }
func (errUnsent) SafeToRetry() bool { return true }

func (s *stale) Connect(context.Context) (driver.Conn, error) { return &staleConn{stale: s}, nil }
func (s *stale) Driver() driver.Driver                        { return nil }

type staleConn struct {
	stale  *stale
	broken bool
}

func (c *staleConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	if c.stale.left > 0 {
		c.stale.left--
		c.broken = true
		return nil, errUnsent{}
	}
	return &oneRow{}, nil
}

func (c *staleConn) IsValid() bool                          { return !c.broken }
func (*staleConn) Prepare(string) (driver.Stmt, error)      { return nil, errors.ErrUnsupported }
func (*staleConn) Begin() (driver.Tx, error)                { return nil, errors.ErrUnsupported }
func (*staleConn) Close() error                             { return nil }
func (*staleConn) CheckNamedValue(*driver.NamedValue) error { return nil }

// oneRow is what sql/enqueue_one.sql returns.
type oneRow struct{ read bool }

func (*oneRow) Columns() []string { return []string{"id", "woken"} }
func (*oneRow) Close() error      { return nil }

func (r *oneRow) Next(row []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	row[0], row[1] = int64(7), nil
	return nil
}

// TestUnsent: what a broken connection of the pool's has not sent goes over another, and
// where none is left that works it is not unknown what came of it.
func TestUnsent(t *testing.T) {
	for _, c := range []struct {
		broken  int
		written bool
	}{{0, true}, {1, true}, {5, true}, {1000, false}} {
		db := sql.OpenDB(&stale{left: c.broken})
		defer db.Close()
		q, err := postgres.New(db, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		job := &queue.Job{Kind: "test"}
		err = q.Enqueue(t.Context(), nil, job)
		if (err == nil) != c.written || (job.ID == 7) != c.written || errors.Is(err, queue.ErrUnknown) {
			t.Errorf("%d broken connections: got %v, job %d", c.broken, err, job.ID)
		}
	}
}
