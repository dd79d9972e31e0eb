package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// answeringReclaim is a queue whose Reclaim has its effect, and then answers as answer does. n
// counts the calls from the first that has reclaimed jobs.
type answeringReclaim struct {
	*queuetest.Queue
	answer func(ctx context.Context, n int32, jobs []*queue.Job) ([]*queue.Job, error)
	n      atomic.Int32
}

func (q *answeringReclaim) Reclaim(ctx context.Context, limit int) ([]*queue.Job, error) {
	jobs, err := q.Queue.Reclaim(ctx, limit)
	if err != nil || len(jobs) == 0 && q.n.Load() == 0 {
		return jobs, err
	}
	return q.answer(ctx, q.n.Add(1), jobs)
}

// answerAfter closes begun, and answers after d, as a slow database does: unless ctx ends.
func answerAfter(begun chan struct{}, d time.Duration) func(context.Context, int32, []*queue.Job) ([]*queue.Job, error) {
	return func(ctx context.Context, n int32, jobs []*queue.Job) ([]*queue.Job, error) {
		if n == 1 {
			close(begun)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(d):
			return jobs, nil
		}
	}
}

// TestStopWhileReclaiming: a worker that is told to stop while it reclaims has all of Grace for the
// answer and for the calls of OnDead, and what it has reclaimed is in the statistics. If the answer
// comes too late, the log says so.
func TestStopWhileReclaiming(t *testing.T) {
	for _, c := range []struct {
		name        string
		answer      time.Duration
		grace       time.Duration
		call        time.Duration // how long OnDead takes
		calls, dead int
		logged      int
		took        time.Duration
	}{
		{"many calls", 100 * time.Millisecond, time.Minute, time.Second, 100, 100, 0, 11 * time.Second},
		{"a slow answer", 5 * time.Second, time.Minute, time.Second, 100, 100, 0, 16 * time.Second},
		{"short Grace", 900 * time.Millisecond, 1, 800 * time.Millisecond, 10, 100, 0, 3 * time.Second},
		{"no answer", time.Hour, time.Second, 0, 0, 0, 1, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := make(chan struct{})
			q := &answeringReclaim{Queue: newQueue(t, 0), answer: answerAfter(begun, c.answer)}
			enqueueOnce(t, q.Queue, 100)
			crash(t, q.Queue, 100)
			var called atomic.Int32
			w := start(t, engine.Worker{Backend: q, Handler: taking(0), Grace: c.grace, OnDead: func(ctx context.Context, _ *queue.Job, _ error) {
				select {
				case <-time.After(c.call):
					called.Add(1)
				case <-ctx.Done():
				}
			}})
			<-begun
			if took := w.stop(); took > c.took {
				t.Errorf("%s: Run took %v to stop, want %v at most", c.name, took, c.took)
			}
			if got := int(called.Load()); got != c.calls {
				t.Errorf("%s: OnDead was called for %d jobs, want %d; the log:\n%s", c.name, got, c.calls, w.log)
			}
			dead := 0
			for _, s := range statsOf(t, q, queue.StatsFilter{}) {
				dead += int(s.Dead)
			}
			if dead != c.dead {
				t.Errorf("%s: the statistics have %d dead jobs, want %d", c.name, dead, c.dead)
			}
			w.log.wantLogged(t, c.logged, "failed while the worker stopped")
		})
	}
}

// TestReclaimHalfAnswered: OnDead is called for the jobs that the worker knows of, although a later
// call of the same pass is never answered.
func TestReclaimHalfAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		q := &answeringReclaim{Queue: newQueue(t, 0)}
		q.answer = func(ctx context.Context, n int32, jobs []*queue.Job) ([]*queue.Job, error) {
			if n == 1 {
				return jobs, nil // a thousand
			}
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		enqueueOnce(t, q.Queue, 1001)
		crash(t, q.Queue, 1001)
		var called atomic.Int32
		w := start(t, engine.Worker{Backend: q, Handler: taking(0), Grace: time.Minute,
			OnDead: func(context.Context, *queue.Job, error) { called.Add(1) }})
		<-begun
		w.stop()
		if called.Load() != 1000 {
			t.Errorf("OnDead was called for %d jobs, want 1000", called.Load())
		}
	})
}

// TestOnDeadEndsAfterGrace: whatever the handler's context ended with, and whenever the handler
// returned, the context of OnDead ends two seconds after Grace, and the job is dead if and only if
// OnDead was called in time.
func TestOnDeadEndsAfterGrace(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		returns time.Duration // after the end of the handler's context
		lived   time.Duration // the context of OnDead; 0 means no call
		status  queue.Status
	}{
		{"before Grace", 100 * time.Millisecond, 0, 2900 * time.Millisecond, queue.StatusDead},
		{"timed out before the end of Grace, and returned after it", 900 * time.Millisecond, 200 * time.Millisecond, 1900 * time.Millisecond, queue.StatusDead},
		{"cancelled", 0, 0, 2 * time.Second, queue.StatusDead},
		{"cancelled, and returned late", 0, 1500 * time.Millisecond, 500 * time.Millisecond, queue.StatusDead},
		{"too late", 0, 2500 * time.Millisecond, 0, queue.StatusPending},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 0)
			enqueueOnce(t, q, 1)
			var lived time.Duration
			handler := queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
				<-ctx.Done()
				time.Sleep(c.returns)
				return queue.Discard(errPlain)
			})
			w := start(t, engine.Worker{Backend: q, Handler: handler, Timeout: c.timeout, Grace: time.Second, OnDead: func(ctx context.Context, _ *queue.Job, _ error) {
				began := time.Now()
				<-ctx.Done()
				lived = time.Since(began)
			}})
			synctest.Wait()
			w.stop()
			if lived != c.lived {
				t.Errorf("%s: the context of OnDead lived %v, want %v", c.name, lived, c.lived)
			}
			wantCount(t, q, c.status, 1)
			w.log.wantLogged(t, 0, "ignores")
		})
	}
}

// TestOnDeadOutlivesRun: Run returns an error if a call of OnDead for a reclaimed job still runs
// then, and the log says which.
func TestOnDeadOutlivesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		enqueueOnce(t, q, 1)
		crash(t, q, 1)
		let := make(chan struct{})
		var began atomic.Bool
		w := start(t, engine.Worker{Backend: q, Handler: taking(0), Grace: time.Second,
			OnDead: func(context.Context, *queue.Job, error) { began.Store(true); beStubborn(let) }})
		until(t, "OnDead is called", began.Load)
		w.cancel()
		if took, err := w.wait(); err == nil || took > 9*time.Second {
			t.Errorf("Run returned %v after %v, want an error within 8 s of Grace", err, took)
		}
		w.log.wantLogged(t, 1, "OnDead ignores")
		close(let)
	})
}
