package engine_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// runForAMinute runs a worker with one slot that claims nothing ahead. It returns how many handlers
// it started.
func runForAMinute(t *testing.T, q queue.Queue, handler queue.HandlerFunc) (ran int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	counting := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		ran++
		return handler(ctx, job)
	})
	err := engine.Worker{Backend: q, Handler: counting, Concurrency: 1, Prefetch: -1, Lease: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	return ran
}

// TestSettledFreesSlot: a slot is free after a handler that has settled its job itself.
func TestSettledFreesSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 3)
		ran := runForAMinute(t, q, func(ctx context.Context, job *queue.Job) error {
			if _, err := q.Settle(ctx, nil, queue.Outcome{Job: job, Action: queue.Done}); err != nil {
				return err
			}
			return queue.ErrSettled
		})
		if ran != 3 {
			t.Errorf("%d jobs ran, want 3", ran)
		}
	})
}

// thief is a queue whose Extend reports every job lost.
type thief struct{ *queuetest.Queue }

func (thief) Extend(_ context.Context, _ time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	return jobs, nil, nil
}

// TestLostBeforeStarted: jobs that were lost while they waited for a slot do not run.
func TestLostBeforeStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newQueue(t, 20)
		q := &meddled{Queue: memory, before: func(ctx context.Context, c call) error {
			for _, job := range c.jobs {
				if c.operation == "extend" && job.ID > 2 { // the job is settled elsewhere
					if _, err := memory.Settle(ctx, nil, queue.Outcome{Job: job, Action: queue.Dead}); err != nil {
						return err
					}
				}
			}
			return nil
		}}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(12 * time.Second)), Concurrency: 1, Prefetch: time.Hour})
		time.Sleep(13 * time.Second)
		wantCount(t, q, queue.StatusRunning, 19) // the second runs, the others wait
		time.Sleep(time.Minute)
		w.stop()
		ran.wantEach(t, 2)
		wantCount(t, q, queue.StatusCompleted, 2)
		w.log.wantLogged(t, 18, "lease lost")
	})
}

// TestLostFreesSlot: a slot is free after the handler of a lost job.
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
