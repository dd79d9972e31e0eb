package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestShutdownWithinGrace: running jobs may finish and are settled. Waiting jobs are released as if
// they had never been claimed.
func TestShutdownWithinGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, enqueued := newQueue(t, 100), time.Now()
		var slow atomic.Bool
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
			if slow.Load() {
				time.Sleep(5 * time.Second)
			}
			time.Sleep(time.Millisecond)
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: 4})
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		slow.Store(true)
		time.Sleep(5 * time.Millisecond)
		running := count(t, q, queue.StatusRunning)
		if running <= 4 {
			t.Fatalf("%d jobs are held, want some that wait", running)
		}
		if took := w.stop(); took > 6*time.Second {
			t.Errorf("Run returned after %v, want within the 5 s that handlers take", took)
		}
		done := count(t, q, queue.StatusCompleted)
		wantCount(t, q, queue.StatusPending, 100-done)
		w.wantReleased(0, running-4)
		wantCount(t, q, queue.StatusRunning, 0)
		records, _, err := q.Jobs(t.Context(), queue.Filter{Status: queue.StatusPending})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Attempt != 0 || !r.ScheduledAt.Equal(enqueued) {
				t.Errorf("job %d was released with attempt %d, due at %v; want 0, and %v as before", r.ID, r.Attempt, r.ScheduledAt, enqueued)
			}
		}
	})
}

// TestShutdownAfterGrace: handlers are cancelled with ErrShutdown, and their jobs released, which
// costs no attempt.
func TestShutdownAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		cause := make(chan error, 1)
		w := start(t, engine.Worker{Backend: q, Handler: waiting(cause), Grace: 7 * time.Second})
		time.Sleep(time.Minute)
		if took := w.stop(); took != 7*time.Second {
			t.Errorf("Run returned after %v, want at the end of Grace, 7s", took)
		}
		if err := <-cause; !errors.Is(err, queue.ErrShutdown) {
			t.Errorf("context ended by %v, want ErrShutdown", err)
		}
		w.wantReleased(1, 0)
		wantCount(t, q, queue.StatusPending, 1)
		wantJob(t, q, &queue.Job{ID: 1}, queue.StatusPending, 0)
	})
}

// TestShutdownIsLogged: the log says at once for how many handlers a worker waits, and for how long
// at most. It says nothing if there are none.
func TestShutdownIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stopping = "errand: worker shuts down, waits for its handlers"
		w := start(t, engine.Worker{Backend: newQueue(t, 3), Handler: waiting(make(chan error, 3)), Grace: 10 * time.Second})
		time.Sleep(time.Minute)
		w.cancel()
		synctest.Wait()
		found := w.log.find(t, stopping)
		if len(found) != 1 || found[0]["level"] != "INFO" || found[0]["handlers"] != float64(3) || found[0]["grace"] != float64(10*time.Second) {
			t.Errorf("as soon as Run's context has ended: %v, want one record, of 3 handlers and 10s", found)
		}
		if _, err := w.wait(); err != nil {
			t.Error(err)
		}
		w = start(t, engine.Worker{Backend: newQueue(t, 0), Handler: taking(0)})
		time.Sleep(time.Minute)
		w.stop()
		w.log.wantLogged(t, 0, stopping)
	})
}

func TestHaltEndsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		halt := make(chan struct{})
		w := start(t, engine.Worker{Backend: q, Handler: waiting(make(chan error, 1)), Grace: time.Hour, Halt: halt})
		time.Sleep(time.Minute)
		w.cancel()
		time.Sleep(3 * time.Second)
		close(halt)
		if took, err := w.wait(); took != 0 || err != nil {
			t.Errorf("Run returned %v after another %v, want nil at once", err, took)
		}
		wantJob(t, q, &queue.Job{ID: 1}, queue.StatusPending, 0)
	})
}

// TestSuccessAfterShutdown: a cancelled handler that succeeds completes its job.
func TestSuccessAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		handler := queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Grace: time.Second})
		time.Sleep(time.Second)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 1)
		w.log.wantLogged(t, 0, "released")
	})
}

// TestStuckAtShutdown: Run returns although a handler ignores the end of its context. It returns an
// error and releases the job.
func TestStuckAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		let := make(chan struct{})
		w := start(t, engine.Worker{Backend: q, Handler: stubborn(let), Grace: time.Second})
		time.Sleep(time.Second)
		w.cancel()
		took, err := w.wait()
		if err == nil || took > 10*time.Second {
			t.Errorf("Run returned %v after %v, want an error within Grace and a few seconds", err, took)
		}
		wantText(t, err.Error(), "handlers still running: 1")
		found := w.log.find(t, "ignores that its context has ended")
		if len(found) != 1 {
			t.Fatalf("reported %d times, want once", len(found))
		}
		wantText(t, found[0]["stack"].(string), "beStubborn")
		w.wantReleased(1, 0)
		wantJob(t, q, &queue.Job{ID: 1}, queue.StatusPending, 0)
		close(let) // otherwise the goroutine would leak, and the bubble could not end
	})
}

// TestClaimUnderWayAtShutdown: the jobs of a claim that is still under way are released as if they
// had never been claimed.
func TestClaimUnderWayAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &meddled{Queue: newQueue(t, 5), before: func(_ context.Context, c call) error {
			if c.operation == "claim" {
				time.Sleep(2 * time.Second)
			}
			return nil
		}}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(0))})
		time.Sleep(time.Second)
		if took := w.stop(); took > 2*time.Second {
			t.Errorf("Run returned after %v, want when the claim is back", took)
		}
		wantCount(t, q, queue.StatusPending, 5)
		wantJob(t, q, &queue.Job{ID: 1}, queue.StatusPending, 0)
	})
}

// claimsThat returns a hook that calls second before every claim after the first.
func claimsThat(q *queuetest.Queue, second func(ctx context.Context)) *meddled {
	var claims atomic.Int32
	return &meddled{Queue: q, before: func(ctx context.Context, c call) error {
		if c.operation == "claim" && claims.Add(1) > 1 {
			second(ctx)
			return ctx.Err()
		}
		return nil
	}}
}

// swallowed is a call that gets no answer before its context ends.
func swallowed(ctx context.Context) { <-ctx.Done() }

// TestGraceBesideClaim: Grace begins when Run's context ends, not when the claim that is under way
// returns.
func TestGraceBesideClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := claimsThat(newQueue(t, 1), swallowed)
		cause := make(chan error, 1)
		w := start(t, engine.Worker{Backend: q, Handler: waiting(cause), Grace: 2 * time.Second})
		time.Sleep(time.Second)
		if took := w.stop(); took != 2*time.Second {
			t.Errorf("Run returned after %v, want at the end of Grace, 2s", took)
		}
		if err := <-cause; !errors.Is(err, queue.ErrShutdown) {
			t.Errorf("context ended by %v, want ErrShutdown", err)
		}
		wantJob(t, q, &queue.Job{ID: 1}, queue.StatusPending, 0)
		w.log.wantLogged(t, 1, "claim given up at shutdown")
	})
}

// TestHaltBesideClaim: Halt ends handlers at once, also while a claim is under way.
func TestHaltBesideClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := claimsThat(newQueue(t, 1), swallowed)
		halt, cause := make(chan struct{}), make(chan error, 1)
		w := start(t, engine.Worker{Backend: q, Handler: waiting(cause), Halt: halt})
		time.Sleep(time.Second)
		close(halt)
		if took := w.stop(); took != 0 {
			t.Errorf("Run returned after %v, want at once", took)
		}
		if err := <-cause; !errors.Is(err, queue.ErrShutdown) {
			t.Errorf("context ended by %v, want ErrShutdown", err)
		}
	})
}

// TestLateClaimAtShutdown: the jobs of a claim that returns during Grace are released at once, and
// not started.
func TestLateClaimAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := claimsThat(newQueue(t, 11), func(context.Context) { time.Sleep(5 * time.Second) })
		given := 0
		before := q.before
		q.before = func(ctx context.Context, c call) error {
			if c.operation == "settle" && len(c.jobs) == 5 {
				given++
			}
			return before(ctx, c)
		}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(15 * time.Second)), Concurrency: 20})
		time.Sleep(time.Second)
		enqueue(t, q, newTasks(5)...)
		w.cancel()
		time.Sleep(5 * time.Second)
		wantCount(t, q, queue.StatusRunning, 11)
		wantCount(t, q, queue.StatusPending, 5)
		if given != 1 {
			t.Errorf("the claim's jobs were released %d times, want once", given)
		}
		if took, err := w.wait(); took != 9*time.Second || err != nil {
			t.Errorf("Run returned %v after another %v, want nil when the handlers end", err, took)
		}
		ran.wantEach(t, 11)
		wantCount(t, q, queue.StatusCompleted, 11)
	})
}

// TestStopIsBounded: Run returns eight seconds after Grace although handlers and a claim ignore
// their contexts. Its error says so.
func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		q := claimsThat(newQueue(t, 2), func(context.Context) { <-let })
		before := q.before
		q.before = func(ctx context.Context, c call) error {
			if c.operation == "settle" {
				swallowed(ctx)
				return ctx.Err()
			}
			return before(ctx, c)
		}
		w := start(t, engine.Worker{Backend: q, Handler: stubborn(let), Grace: 20 * time.Second, Concurrency: 3})
		time.Sleep(time.Second)
		w.cancel()
		took, err := w.wait()
		if err == nil || took > 28*time.Second {
			t.Errorf("Run returned %v after %v, want an error within 28s", err, took)
		}
		wantText(t, err.Error(), "a claim that ignores its context", "handlers still running: 2", "outcomes not settled: 2")
		close(let)
	})
}

// TestShutdownIsNoFailure: Run does not log an error of a call that it has cancelled itself.
func TestShutdownIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &meddled{Queue: newQueue(t, 1), before: func(ctx context.Context, c call) error {
			if c.operation == "settle" {
				return nil
			}
			select { // slow to answer, but ends with its context
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Second):
				return nil
			}
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(7 * time.Second)})
		time.Sleep(11 * time.Second) // the job ends at 12 s, an Extend is under way from 10 s to 15 s
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 1)
		w.log.wantLogged(t, 1, "") // the worker says that it waits for its handler
		w.log.wantLogged(t, 1, "errand: worker shuts down")
	})
}
