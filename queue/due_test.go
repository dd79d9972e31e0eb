package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	w := start(t, queue.Worker{Backend: q, Handler: handler, Poll: 20 * time.Second})
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
