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

// TestUnsent: what a broken connection of the pool has not sent goes over another connection. If
// none works, the error says that nothing was written.
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
		q.TrustDriver()
		job := &queue.Job{Kind: "test"}
		err = q.Enqueue(t.Context(), nil, job)
		if (err == nil) != c.written || (job.ID == 7) != c.written || errors.Is(err, queue.ErrUnknown) {
			t.Errorf("%d broken connections: got %v, job %d", c.broken, err, job.ID)
		}
	}
}

// rounds is a driver that answers the statements of one connection in turn.
type rounds struct{ answers []any } // rows, or an error

func (r *rounds) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r *rounds) Driver() driver.Driver                        { return nil }
func (*rounds) Prepare(string) (driver.Stmt, error)            { return nil, errors.ErrUnsupported }
func (r *rounds) Begin() (driver.Tx, error)                    { return r, nil }
func (*rounds) Commit() error                                  { return nil }
func (*rounds) Rollback() error                                { return nil }
func (*rounds) Close() error                                   { return nil }
func (*rounds) CheckNamedValue(*driver.NamedValue) error       { return nil }

// BeginTx implements [driver.ConnBeginTx]: a call is a transaction after a serialization failure.
func (r *rounds) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return r, nil }

func (*rounds) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (r *rounds) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	answer := r.answers[0]
	r.answers = r.answers[1:]
	if err, ok := answer.(error); ok {
		return nil, err
	}
	return &enqueued{answer.([][]driver.Value)}, nil
}

// enqueued is what sql/enqueue.sql and sql/enqueue_one_keyed.sql return.
type enqueued struct{ rows [][]driver.Value }

func (*enqueued) Columns() []string { return []string{"id", "duplicate", "woken"} }
func (*enqueued) Close() error      { return nil }

func (e *enqueued) Next(row []driver.Value) error {
	if len(e.rows) == 0 {
		return io.EOF
	}
	copy(row, e.rows[0])
	e.rows = e.rows[1:]
	return nil
}

// stateError is an error with a SQLSTATE.
type stateError string

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

// TestLaterRound: if a key is freed while a batch is written, a second round writes the jobs that
// are left. The first round's jobs are not written twice if that round is retried, and the error
// does not say that they are unwritten if it fails.
func TestLaterRound(t *testing.T) {
	first := [][]driver.Value{{int64(1), false, int64(0)}, {nil, true, int64(0)}} // the key was just let go
	for name, c := range map[string]struct {
		answers []any
		want    error
	}{
		"repeated":   {[]any{first, stateError("40001"), [][]driver.Value{{int64(2), false, nil}}}, nil},
		"deadlocked": {[]any{first, stateError("40P01"), [][]driver.Value{{int64(2), false, nil}}}, nil},
		"fails":      {[]any{first, stateError("57014")}, queue.ErrUnknown},
		"too much":   {[]any{first, stateError("54000")}, queue.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rounds{c.answers}
			db := sql.OpenDB(r)
			defer db.Close()
			q, err := postgres.New(db, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			q.TrustDriver()
			jobs := []*queue.Job{{Kind: "test"}, {Kind: "test", Key: "k"}}
			err = q.Enqueue(t.Context(), nil, jobs...)
			if !errors.Is(err, c.want) || len(r.answers) > 0 {
				t.Errorf("got %v with %d answers left, want %v", err, len(r.answers), c.want)
			}
			if bad := (*queue.InvalidError)(nil); errors.As(err, &bad) {
				t.Errorf("got %v, which says that nothing is written", err)
			}
			if c.want == nil && (jobs[0].ID != 1 || jobs[1].ID != 2) {
				t.Errorf("got jobs %d and %d, want 1 and 2", jobs[0].ID, jobs[1].ID)
			}
		})
	}
}
