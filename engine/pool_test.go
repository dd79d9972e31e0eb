package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// pooled is a queue whose pool has a limit of most connections.
type pooled struct {
	*queuetest.Queue
	db             *sql.DB
	most, reserved atomic.Int64
}

func (p *pooled) Reserve(n int, dbs ...*sql.DB) (left int, release func()) {
	if !slices.Contains(dbs, p.db) {
		n = 0
	}
	held := p.reserved.Add(int64(n))
	return int(p.most.Load() - held), func() { p.reserved.Add(int64(-n)) }
}

// holder is a middleware whose handlers hold a connection.
func holder(db *sql.DB) queue.Middleware {
	return func(next queue.Handler) queue.Handler { return holding{next, db} }
}

type holding struct {
	queue.Handler
	db *sql.DB
}

func (h holding) HoldsConn() *sql.DB { return h.db }

func (h holding) Unwrap() queue.Handler { return h.Handler }

// hide is a middleware without an Unwrap method.
func hide(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error { return next.HandleJob(ctx, job) })
}

// TestPoolTooSmall: a worker whose handlers may hold every connection of its backend's pool does
// not start. It finds the ConnHolder anywhere in its Handler. If one connection is left, it logs a
// warning.
func TestPoolTooSmall(t *testing.T) {
	own, other := new(sql.DB), new(sql.DB)
	muxOf := func(h queue.Handler) *queue.Mux {
		mux := queue.NewMux()
		mux.Handle(work.Name, h)
		return mux
	}
	inKind := queue.NewMux()
	work.Handle(inKind, func(context.Context, *queue.Job, task) error { return nil }, hide, holder(own))
	for name, c := range map[string]struct {
		h    queue.Handler
		hold int
	}{
		"nobody":               {taking(0), 0},
		"another pool":         {queue.Chain(taking(0), holder(other)), 0},
		"the handler":          {holder(own)(taking(0)), 10},
		"in a chain":           {queue.Chain(muxOf(taking(0)), hide, holder(own), hide), 10},
		"in a chain's chain":   {queue.Chain(queue.Chain(taking(0), holder(own)), hide), 10},
		"in a mux":             {muxOf(queue.Chain(taking(0), holder(own))), 10},
		"of a kind":            {inKind, 10},
		"two of different":     {queue.Chain(muxOf(queue.Chain(taking(0), holder(own))), holder(other)), 10},
		"a mux within a chain": {queue.Chain(muxOf(queue.Chain(taking(0), holder(own))), hide), 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &pooled{Queue: newQueue(t, 1), db: own}
				for spare := range 3 {
					q.most.Store(int64(c.hold + spare))
					w := start(t, engine.Worker{Backend: q, Handler: c.h})
					time.Sleep(time.Second)
					w.cancel()
					_, err := w.wait()
					var bad *queue.InvalidError
					if refused := errors.As(err, &bad) && bad.Field == "Worker.Backend"; refused != (spare == 0) || err != nil && !refused {
						t.Errorf("with %d connections left: got error %v", spare, err)
					}
					warned := 0
					if spare == 1 {
						warned = 1
					}
					w.log.wantLogged(t, warned, "the pool has few connections")
					if n := q.reserved.Load(); n != 0 {
						t.Errorf("%d connections are reserved when Run has returned, want 0", n)
					}
				}
			})
		})
	}
}

// tabled is a pooled queue whose tables are in db.
type tabled struct{ *pooled }

func (q tabled) Tables() driver.Tables { return driver.Tables{DB: q.db} }

// TestPoolEnough: an error and a warning of a small pool name the limit that is enough: with it the
// worker logs none. Where the limit is not known, they name what is missing.
func TestPoolEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(sql.DB)
		q := &pooled{Queue: newQueue(t, 0), db: db}
		run := func(backend queue.Consumer, limit int) (text string) {
			db.SetMaxOpenConns(limit)
			q.most.Store(int64(limit - 1)) // the listener has one
			w := start(t, engine.Worker{Backend: backend, Handler: holder(db)(taking(0)), Concurrency: 8})
			time.Sleep(time.Second)
			w.cancel()
			if _, err := w.wait(); err != nil {
				return err.Error()
			}
			return w.log.String()
		}
		const known, unknown, page = "a limit of 11 is enough", "a limit that is higher by ", "docs/operations.md#pools"
		wantText(t, run(tabled{q}, 4), known, page, "heartbeats need 2")
		wantText(t, run(tabled{q}, 10), known, page)
		wantText(t, run(q, 4), unknown+"7 is enough", page)
		wantText(t, run(q, 10), unknown+"1 is enough", page)
		if text := run(tabled{q}, 11); strings.Contains(text, "connections") {
			t.Errorf("with the limit that is enough: %s", text)
		}
	})
}

// TestPoolOfTwoWorkers: the second worker cannot reserve the connections that the first has
// reserved.
func TestPoolOfTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(sql.DB)
		q := &pooled{Queue: newQueue(t, 0), db: db}
		q.most.Store(15)
		h := holder(db)(taking(0))
		first := start(t, engine.Worker{Backend: q, Handler: h})
		time.Sleep(time.Second)
		second := start(t, engine.Worker{Backend: q, Handler: h})
		if _, err := second.wait(); err == nil {
			t.Error("the second worker of ten handlers in transactions started with a pool of 15, want an error")
		}
		first.stop()
	})
}
