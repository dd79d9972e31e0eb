package queue_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// runForAMinute runs a worker of one slot, which holds nothing ahead, and says how
// many handlers it started.
func runForAMinute(t *testing.T, q queue.Queue, handler queue.HandlerFunc) (ran int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	counting := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		ran++
		return handler(ctx, job)
	})
	err := queue.Worker{Backend: q, Handler: counting, Concurrency: 1, Prefetch: -1, Lease: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	return ran
}

// TestSettledFreesSlot: a handler that settled its job itself leaves its slot to
// the next, although no outcome comes by.
func TestSettledFreesSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 3)
		ran := runForAMinute(t, q, func(ctx context.Context, job *queue.Job) error {
			if _, err := q.Settle(ctx, nil, queue.Outcome{Job: job, Verb: queue.Done}); err != nil {
				return err
			}
			return queue.Settled
		})
		if ran != 3 {
			t.Errorf("%d jobs ran, want 3", ran)
		}
	})
}

// thief is a queue from which every lease is stolen.
type thief struct{ *queuetest.Queue }

func (thief) Extend(_ context.Context, _ time.Duration, jobs ...*queue.Job) ([]*queue.Job, error) {
	return jobs, nil
}

// TestLostFreesSlot: so does one whose job was lost.
func TestLostFreesSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := runForAMinute(t, thief{newQueue(t, 3)}, func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if ran < 3 {
			t.Errorf("%d jobs ran, want 3 or more", ran)
		}
	})
}
