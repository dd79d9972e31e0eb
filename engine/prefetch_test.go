package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// startWaits runs two workers with that many slots. Jobs take a millisecond, but one in 200 takes a
// second. A batch of jobs is enqueued at each interval. startWaits returns how long the jobs waited
// to start, in order.
func startWaits(t *testing.T, slots, batch int, interval time.Duration) (waits []time.Duration) {
	t.Helper()
	q := queuetest.New(queuetest.Options{})
	var mu sync.Mutex
	handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		mu.Lock()
		waits = append(waits, time.Since(job.CreatedAt))
		mu.Unlock()
		if job.ID%200 == 0 {
			time.Sleep(time.Second)
		}
		time.Sleep(time.Millisecond)
		return nil
	})
	one := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: slots})
	two := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: slots})
	const jobs = 4000
	for range jobs / batch {
		time.Sleep(interval)
		enqueue(t, q, newTasks(batch)...)
	}
	time.Sleep(time.Minute)
	one.stop()
	two.stop()
	if len(waits) != jobs {
		t.Fatalf("%d jobs ran, want %d", len(waits), jobs)
	}
	slices.Sort(waits)
	return waits
}

// TestSlowJobHoldsUpNoOther: while a slow job keeps one worker busy, the other worker runs the jobs
// that arrive.
func TestSlowJobHoldsUpNoOther(t *testing.T) {
	extent.Long(t)
	for _, c := range []struct {
		slots, batch int
		interval     time.Duration
		most         time.Duration // of 99 in 100 jobs
	}{
		{1, 1, 10 * time.Millisecond, 10 * time.Millisecond},
		{1, 20, 250 * time.Millisecond, 20 * time.Millisecond}, // the time that one worker needs for a batch
		{2, 100, 3 * time.Second, 50 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%d each %v", c.batch, c.interval), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waits := startWaits(t, c.slots, c.batch, c.interval)
				if p99 := waits[len(waits)*99/100]; p99 > c.most {
					t.Errorf("99 in 100 jobs started within %v, want %v; the last after %v", p99, c.most, waits[len(waits)-1])
				}
			})
		})
	}
}

// arriving is a queue in which that many jobs wait at each of the first forty claims. It records
// the Limits of those claims.
type arriving struct {
	*queuetest.Queue
	t       *testing.T
	waiting int
	limits  []int
}

func (a *arriving) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if len(a.limits) < 40 {
		enqueue(a.t, a.Queue, newTasks(a.waiting-count(a.t, a.Queue, queue.StatusPending))...)
		a.limits = append(a.limits, req.Limit)
	}
	return a.Queue.Claim(ctx, req)
}

// TestClaimsStayLarge: jobs arrive as fast as they are claimed, and each claim brings more jobs
// than the ten slots, but fewer than the worker asks for. The worker goes on to claim ahead.
func TestClaimsStayLarge(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		q := &arriving{Queue: newQueue(t, 0), t: t, waiting: 300}
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
			time.Sleep(time.Millisecond)
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler})
		time.Sleep(10 * time.Second)
		w.stop()
		later := q.limits[10:40] // the worker knows by then how long handlers take
		if low := slices.Min(later); low < 500 {
			t.Errorf("a claim was for %d jobs, want at least 500 in each: %v", low, later)
		}
	})
}
