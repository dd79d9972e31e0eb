package middleware_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// silentNet is a driver over a network that swallows connections: the first of them at begin, and
// all, if commit or rollback is set, when they do that. What is swallowed ends with its context, as
// it does with pgx, or, if deaf is set, when the operating system gives the connection up, as it
// does with lib/pq.
type silentNet struct {
	begin            int32
	commit, rollback bool
	deaf             bool
	begun            atomic.Int32
}

func (n *silentNet) swallow(ctx context.Context) error {
	if n.deaf {
		time.Sleep(15 * time.Minute)
		return driver.ErrBadConn
	}
	<-ctx.Done()
	return ctx.Err()
}

func (n *silentNet) Connect(context.Context) (driver.Conn, error) { return &silentConn{net: n}, nil }
func (n *silentNet) Driver() driver.Driver                        { return nil }

type silentConn struct {
	net *silentNet
	ctx context.Context // of the transaction
}

func (c *silentConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if c.net.begun.Add(1) <= c.net.begin {
		return nil, c.net.swallow(ctx)
	}
	c.ctx = ctx
	return c, nil
}

func (c *silentConn) Commit() error {
	if c.net.commit {
		return c.net.swallow(c.ctx)
	}
	return nil
}

func (c *silentConn) Rollback() error {
	if c.net.rollback {
		return c.net.swallow(c.ctx)
	}
	return nil
}

func (*silentConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (*silentConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (*silentConn) Close() error                        { return nil }

// silentQueue settles, or does not come back before its context ends.
type silentQueue struct {
	queue.Consumer
	silent bool
	net    *silentNet
}

func (q silentQueue) Settle(ctx context.Context, _ queue.DB, _ ...queue.Outcome) ([]*queue.Job, error) {
	if q.silent {
		return nil, q.net.swallow(ctx)
	}
	return nil, nil
}

// TestTxSilence: a connection that the network has swallowed costs time, and is neither waited for
// for ever nor, at the beginning, the job's fault.
func TestTxSilence(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		begin                    int32
		settle, commit, rollback bool
		err, want                error
		took, tookDeaf           time.Duration
	}{
		"begin":    {begin: 2, want: queue.ErrSettled, took: 20 * time.Second, tookDeaf: 22 * time.Second},
		"settle":   {settle: true, want: middleware.ErrSilent, took: 10 * time.Second, tookDeaf: 11 * time.Second},
		"commit":   {commit: true, want: middleware.ErrSilent, took: 10 * time.Second, tookDeaf: 11 * time.Second},
		"rollback": {rollback: true, err: failed, want: failed, took: 10 * time.Second, tookDeaf: 11 * time.Second},
	} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/deaf=%v", name, deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					net := silentNet{begin: c.begin, commit: c.commit, rollback: c.rollback, deaf: deaf}
					want := c.took
					if deaf {
						want = c.tookDeaf
					}
					db := sql.OpenDB(&net)
					defer db.Close()
					ran := 0
					h := queue.Chain(queue.HandlerFunc(func(context.Context, *queue.Job) error { ran++; return c.err }),
						middleware.Tx(db, silentQueue{silent: c.settle, net: &net}, middleware.TxOptions{}))
					begun := time.Now()
					if err := h.HandleJob(t.Context(), &queue.Job{}); !errors.Is(err, c.want) {
						t.Errorf("got %v, want %v", err, c.want)
					}
					if took := time.Since(begun); took != want || ran != 1 {
						t.Errorf("the handler ran %d times, in %v; want once, in %v", ran, took, want)
					}
					time.Sleep(time.Hour) // until the operating system has given up
				})
			})
		}
	}
}

// TestTxBeginEnds: begin does not outlast the handler's context.
func TestTxBeginEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(&silentNet{begin: 1000})
		defer db.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		h := queue.Chain(queue.HandlerFunc(func(context.Context, *queue.Job) error { return errors.New("it ran") }),
			middleware.Tx(db, silentQueue{}, middleware.TxOptions{}))
		begun := time.Now()
		if err := h.HandleJob(ctx, &queue.Job{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 25*time.Second {
			t.Errorf("got %v after %v, want %v after 25s", err, time.Since(begun), context.DeadlineExceeded)
		}
	})
}
