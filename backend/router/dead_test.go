package router_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// refusing is a backend that refuses what arrives from an outbox.
type refusing struct{ *faulty }

func (refusing) Receive(context.Context, ...driver.Transfer) (int, error) {
	return 0, &queue.InvalidError{Field: "Payload", Problem: "too long"}
}

// TestOnDead: the worker's OnDead is called for a job of the home that is dead by a crash, whether
// the worker reclaims it or the one that forwards the outbox, and for a job of the outbox that its
// backend refuses.
func TestOnDead(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, q *router.Queue, onDead func(context.Context, *queue.Job, error)) error
	}{
		{"worker", func(ctx context.Context, q *router.Queue, onDead func(context.Context, *queue.Job, error)) error {
			handler := queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })
			return engine.Worker{Backend: q, Handler: handler, Logger: quiet, OnDead: onDead}.Run(ctx)
		}},
		{"upkeep alone", func(ctx context.Context, q *router.Queue, onDead func(context.Context, *queue.Job, error)) error {
			return q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet, OnDead: onDead})
		}},
	} {
		for range 10 { // which worker reclaims is left to chance
			synctest.Test(t, func(t *testing.T) {
				home := newFaulty()
				q := route(t, router.Routes{"*": home, "clicks": refusing{newFaulty()}}, router.Options{Logger: quiet})
				crashed := job("default", 1)
				crashed.MaxAttempts = 1
				enqueue(t, q, nil, crashed)
				if got, err := home.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"default"}, Limit: 1, Lease: time.Second, Worker: "crasher"}); err != nil || len(got) != 1 {
					t.Fatalf("claimed %d jobs, error %v; want 1", len(got), err)
				}
				refused := job("clicks", 2)
				commit(t, home.Queue, q, refused)

				var mu sync.Mutex
				causes := make(map[int64][]error)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := c.run(ctx, q, func(_ context.Context, j *queue.Job, err error) {
					mu.Lock()
					defer mu.Unlock()
					causes[j.ID] = append(causes[j.ID], err)
				})
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				if got := causes[crashed.ID]; len(got) != 1 || !errors.Is(got[0], queue.ErrLost) {
					t.Errorf("%s: the crashed job: got %v, want one call, with ErrLost", c.name, got)
				}
				if got := causes[refused.ID]; len(got) != 1 || !isInvalid(got[0]) {
					t.Errorf("%s: the refused job: got %v, want one call, with an InvalidError", c.name, got)
				}
			})
		}
	}
}

// TestOutboxOfNewerRelease: an entry of the outbox that this release cannot read is retried: a
// router of a newer release may have written it, and can read it.
func TestOutboxOfNewerRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := newFaulty()
		q := route(t, router.Routes{"*": home, "clicks": newFaulty()}, router.Options{Logger: quiet})
		newer := job("clicks", 1)
		commit(t, home.Queue, q, newer)
		out, _, err := home.Jobs(t.Context(), queue.Filter{Queue: router.Outbox})
		if err != nil || len(out) != 1 {
			t.Fatalf("outbox: %d jobs, error %v; want 1", len(out), err)
		}
		unread := &queue.Job{Queue: router.Outbox, Kind: "clicks", Headers: maps.Clone(out[0].Headers)}
		for name := range unread.Headers {
			unread.Headers[name] = `{"source": {"of": "a newer release"}}`
		}
		enqueue(t, home, nil, unread)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}); err != nil {
			t.Error(err)
		}
		got, _, err := home.Job(t.Context(), unread.ID)
		if err != nil || got.Status != queue.StatusPending || got.Attempt != 1 {
			t.Errorf("the unread entry: %s after attempt %d, error %v; want it pending after attempt 1", got.Status, got.Attempt, err)
		}
	})
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*queue.InvalidError](err)
	return ok
}
