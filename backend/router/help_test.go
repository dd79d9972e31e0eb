package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var quiet = slog.New(slog.DiscardHandler)

var errDown = errors.New("connection refused")

// faulty is a backend that can be made to fail, or to hang until contexts end.
type faulty struct {
	*memory.Queue
	isDown, hangs atomic.Bool
}

func newFaulty() *faulty { return &faulty{Queue: memory.New(memory.Options{Retention: forever})} }

func (f *faulty) fail(ctx context.Context) error {
	switch {
	case f.hangs.Load():
		<-ctx.Done()
		return ctx.Err()
	case f.isDown.Load():
		return errDown
	}
	return nil
}

func (f *faulty) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	if err := f.fail(ctx); err != nil {
		return err
	}
	return f.Queue.Enqueue(ctx, db, jobs...)
}

func (f *faulty) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := f.fail(ctx); err != nil {
		return nil, err
	}
	return f.Queue.Claim(ctx, req)
}

func (f *faulty) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := f.fail(ctx); err != nil {
		return nil, nil, err
	}
	return f.Queue.Extend(ctx, lease, jobs...)
}

func (f *faulty) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	if err := f.fail(ctx); err != nil {
		return nil, err
	}
	return f.Queue.Settle(ctx, db, outcomes...)
}

func (f *faulty) Sleep(ctx context.Context, worker string, queues []string) (time.Duration, error) {
	if err := f.fail(ctx); err != nil {
		return 0, err
	}
	return f.Queue.Sleep(ctx, worker, queues)
}

func (f *faulty) Reclaim(ctx context.Context, limit int) ([]*queue.Job, error) {
	if err := f.fail(ctx); err != nil {
		return nil, err
	}
	return f.Queue.Reclaim(ctx, limit)
}

func (f *faulty) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	if err := f.fail(ctx); err != nil {
		return 0, err
	}
	return f.Queue.Receive(ctx, transfers...)
}

// two is a router of two faulty backends: the home, and one for the queue "clicks".
type two struct {
	*router.Queue
	home, clicks *faulty
}

func newTwo(t testing.TB) two {
	t.Helper()
	home, clicks := newFaulty(), newFaulty()
	return two{route(t, router.Routes{"*": home, "clicks": clicks}, router.Options{Logger: quiet}), home, clicks}
}

// job returns a job of the queue with a number in its payload.
func job(name string, n int) *queue.Job {
	payload, _ := json.Marshal(n)
	return &queue.Job{Queue: name, Kind: "k", Payload: payload}
}

func enqueue(t testing.TB, q queue.Enqueuer, db queue.DB, jobs ...*queue.Job) {
	t.Helper()
	if err := q.Enqueue(t.Context(), db, jobs...); err != nil {
		t.Fatal(err)
	}
}

func claim(t testing.TB, q queue.Consumer, limit int, queues ...string) []*queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: queues, Limit: limit, Lease: time.Minute, Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}
