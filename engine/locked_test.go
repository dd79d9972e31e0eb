package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// lockable is a queue of which some jobs are locked, so Settle does not record their outcomes.
type lockable struct {
	*queuetest.Queue
	isLocked func(id int64) bool
	alone    atomic.Int64 // how many calls of Settle named locked jobs alone
}

func (l *lockable) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	locked := &driver.LockedError{Err: errPlain}
	var free []queue.Outcome
	for _, o := range outcomes {
		if l.isLocked(o.Job.ID) {
			locked.Jobs = append(locked.Jobs, o.Job)
		} else {
			free = append(free, o)
		}
	}
	if len(free) == 0 {
		l.alone.Add(1)
	}
	lost, err := l.Queue.Settle(ctx, db, free...)
	if err == nil && len(locked.Jobs) > 0 {
		err = locked
	}
	return lost, err
}

// TestSettleLocked: jobs that a transaction has locked hold up no other job. They are settled once
// they are free, and their leases are extended until then.
func TestSettleLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		var freed atomic.Int64 // jobs up to this ID are free, and those above 20
		q := &lockable{Queue: newQueue(t, n), isLocked: func(id int64) bool { return id <= 20 && id > freed.Load() }}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Millisecond)), Concurrency: 20})
		before := time.Now()
		until(t, "all others completed", func() bool { return count(t, q, queue.StatusCompleted) == n-20 })
		if took := time.Since(before); took > time.Second {
			t.Errorf("the others were settled after %v", took)
		}
		time.Sleep(2 * time.Minute)
		wantCount(t, q, queue.StatusRunning, 20)
		freed.Store(10)
		time.Sleep(time.Second)
		wantCount(t, q, queue.StatusCompleted, n-10)
		freed.Store(20)
		time.Sleep(time.Second)
		wantCount(t, q, queue.StatusCompleted, n)
		w.stop()
		ran.wantEach(t, n)
		w.log.wantLogged(t, 0, "outcome not recorded, the worker no longer holds the job")
	})
}

// TestSettleLockedAtShutdown: a worker that stops tries a last time, and Run ends.
func TestSettleLockedAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		q := &lockable{Queue: newQueue(t, n), isLocked: func(id int64) bool { return id == 50 }}
		w := start(t, engine.Worker{Backend: q, Handler: taking(time.Millisecond)})
		time.Sleep(10 * time.Second)
		tried := q.alone.Load()
		w.cancel()
		before := time.Now()
		if _, err := w.wait(); err == nil {
			t.Error("Run: no error, want one that says that an outcome is left")
		}
		if took := time.Since(before); took > 10*time.Second {
			t.Errorf("Run ended after %v", took)
		}
		if tried < 50 || q.alone.Load() > tried+2 {
			t.Errorf("%d tries in ten seconds and %d at shutdown, want about 100 and 1", tried, q.alone.Load()-tried)
		}
	})
}
