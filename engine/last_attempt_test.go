package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// claims counts a queue's claims, and the outcomes that release a job.
type claims struct {
	queue.Queue
	mu              sync.Mutex
	calls, released int
}

func (c *claims) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	return c.Queue.Claim(ctx, req)
}

func (c *claims) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	c.mu.Lock()
	for _, o := range outcomes {
		if o.Action == queue.Release {
			c.released++
		}
	}
	c.mu.Unlock()
	return c.Queue.Settle(ctx, db, outcomes...)
}

// TestLastAttemptsAreNotClaimedAhead: a crash makes a job in its last attempt dead, so the worker
// holds no such job but in a slot, and does not claim and release them all the time.
func TestLastAttemptsAreNotClaimedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, slots = 2000, 10
		q := newQueue(t, 0)
		list := newTasks(jobs)
		for _, job := range list {
			job.MaxAttempts = 1
		}
		enqueue(t, q, list...)
		running, ran := 0, 0
		var mu sync.Mutex
		c := &claims{Queue: q}
		w := start(t, engine.Worker{Backend: c, Concurrency: slots, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
			mu.Lock()
			ran++
			running++
			mu.Unlock()
			time.Sleep(2 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		})})
		for range 300 {
			time.Sleep(time.Millisecond + time.Microsecond)
			synctest.Wait()
			mu.Lock()
			ahead := count(t, q, queue.StatusRunning) - running
			mu.Unlock()
			if ahead > 0 {
				t.Fatalf("%d jobs are held and do not run", ahead)
			}
		}
		time.Sleep(time.Minute)
		w.stop()
		if ran != jobs {
			t.Errorf("%d jobs ran, want %d", ran, jobs)
		}
		if c.released > jobs/3 || c.calls > jobs*3/2 {
			t.Errorf("%d jobs were released in %d claims", c.released, c.calls)
		}
	})
}

// TestLastAttemptAmongOthers: one job in a hundred is in its last attempt. Those jobs keep their
// places, and the others are claimed ahead as usual.
func TestLastAttemptAmongOthers(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const jobs, every, late = 20_000, 100, 2000
		q := newQueue(t, 0)
		list := newTasks(jobs)
		for i := 0; i < jobs; i += every {
			list[i].MaxAttempts = 1
		}
		enqueue(t, q, list...)
		var mu sync.Mutex
		place, worst := int64(0), int64(0)
		c := &claims{Queue: q}
		w := start(t, engine.Worker{Backend: c, Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			mu.Lock()
			place++
			if job.MaxAttempts == 1 {
				worst = max(worst, place-job.ID)
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
			return nil
		})})
		time.Sleep(time.Minute)
		w.stop()
		if place != jobs || worst > late {
			t.Errorf("%d jobs ran, want %d; a last attempt ran %d places late, want %d at most", place, jobs, worst, late)
		}
		if c.calls > jobs/20 {
			t.Errorf("%d claims for %d jobs", c.calls, jobs)
		}
		t.Logf("%d claims, %d releases, at most %d places late", c.calls, c.released, worst)
	})
}
