package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestReleasedStartsWhenDue: a retried or snoozed job starts when it is due, not at the next poll,
// although the worker fell asleep while the job ran.
func TestReleasedStartsWhenDue(t *testing.T) {
	const delay = 300 * time.Millisecond
	for name, hide := range map[string]func(*queuetest.Queue) queue.Queue{
		"wakes":        func(q *queuetest.Queue) queue.Queue { return q },
		"cannot wake":  func(q *queuetest.Queue) queue.Queue { return deaf{q} },
		"four methods": func(q *queuetest.Queue) queue.Queue { return plain(q) },
	} {
		for action, err := range map[string]error{"retried": queue.RetryAfter(delay, errPlain), "snoozed": queue.Snooze(delay)} {
			t.Run(name+", "+action, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testGivenBack(t, hide(newQueue(t, 1)), delay, err) })
			})
		}
	}
}

func testGivenBack(t *testing.T, q queue.Queue, delay time.Duration, err error) {
	const takes = time.Second
	started := make(chan time.Time)
	var runs atomic.Int64
	handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
		started <- time.Now()
		time.Sleep(takes)
		if runs.Add(1) < 3 {
			return err
		}
		return nil
	})
	w := start(t, engine.Worker{Backend: q, Handler: handler, Poll: 20 * time.Second})
	first := <-started
	for range 2 {
		due := first.Add(takes + delay)
		again := <-started
		if late := again.Sub(due); late < 0 || late > 10*time.Millisecond {
			t.Errorf("started %v after it was due, want at once", late)
		}
		first = again
	}
	time.Sleep(takes)
	w.stop()
}

// TestLimitedRetryStartsWhenDue: a retried job of a limited queue starts when it is due. The place
// that it leaves is free at once, which must not make the worker forget when that is.
func TestLimitedRetryStartsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		if err := q.SetRules(t.Context(), nil, queue.Rule{Running: 2}); err != nil {
			t.Fatal(err)
		}
		enqueue(t, q, newTask(0))
		testGivenBack(t, deaf{q}, 7*time.Second, queue.RetryAfter(7*time.Second, errPlain))
	})
}

// TestLaterDueIsKept: two jobs were retried while the worker sleeps, and somebody else takes the
// first one when it is due. The second one starts when it is due nevertheless.
func TestLaterDueIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newQueue(t, 2)
		began := time.Now()
		isStolen := false
		q := &meddled{inner, func(ctx context.Context, c call) error {
			if at := time.Since(began); c.operation == "claim" && at >= 2*time.Second && !isStolen {
				isStolen = true
				jobs, err := inner.Claim(ctx, queue.ClaimRequest{Queues: []string{"default"}, Limit: 1, Lease: time.Hour, Worker: "thief"})
				if err != nil || len(jobs) != 1 {
					t.Errorf("the thief got %d jobs, error %v", len(jobs), err)
				}
			}
			return nil
		}}
		var seen []time.Duration
		w := start(t, engine.Worker{Backend: plain(q), Poll: 20 * time.Second, Concurrency: 1, Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			seen = append(seen, time.Since(began).Round(10*time.Millisecond))
			return queue.RetryAfter([]time.Duration{0, 2 * time.Second, 9 * time.Second}[job.ID], errPlain)
		})})
		time.Sleep(10 * time.Second)
		w.stop()
		if want := []time.Duration{0, 0, 9 * time.Second}; !slices.Equal(seen, want) {
			t.Errorf("started at %v, want %v", seen, want)
		}
	})
}
