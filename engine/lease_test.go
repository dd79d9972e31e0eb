package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func exitGoroutine() { runtime.Goexit() }

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("want %q in %s", p, text)
		}
	}
}

// TestHeartbeat: leases of 30 s last while handlers run for an hour, beside a worker that would
// reclaim the jobs.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 30)
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Hour)), Concurrency: 10})
		rival := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Hour)), Concurrency: 10})
		time.Sleep(2*time.Hour + time.Minute)
		w.stop()
		rival.stop()
		wantCount(t, q, queue.StatusCompleted, 30)
		ran.wantEach(t, 30)
	})
}

// TestHeartbeatCoversWhatWaits: the worker also extends the leases of jobs that wait for a slot.
func TestHeartbeatCoversWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 200)
		var ran tally
		handler := ran.handle(func(_ context.Context, job *queue.Job) error {
			if job.ID > 100 {
				time.Sleep(10 * time.Minute)
			}
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: 20, Prefetch: 10 * time.Minute})
		rival := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Second)), Queues: []string{"another"}})
		time.Sleep(5 * time.Minute)
		wantCount(t, q, queue.StatusRunning, 100) // 20 run, 80 wait
		time.Sleep(2 * time.Hour)
		w.stop()
		rival.stop()
		wantCount(t, q, queue.StatusCompleted, 200)
		ran.wantEach(t, 200)
	})
}

// TestLongLease: with long leases, too, locked_at is always younger than ten minutes. The guide's
// statement for stale jobs reclaims older ones.
func TestLongLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		w := start(t, engine.Worker{Backend: q, Handler: taking(10 * time.Hour), Lease: 2 * time.Hour})
		var oldest time.Duration
		for range 9 * 60 {
			time.Sleep(time.Minute)
			oldest = max(oldest, time.Since(record(t, q, &queue.Job{ID: 1}).LockedAt))
		}
		if oldest > 6*time.Minute {
			t.Errorf("not extended for %v, want at most 6m", oldest)
		}
		time.Sleep(2 * time.Hour)
		w.stop()
	})
}

// waiting returns a handler that waits for the end of its context and reports the cause.
func waiting(cause chan error) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
}

// TestLeaseLost: the worker is no longer the job's holder. The handler's context ends with ErrLost,
// and its outcome is not recorded.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stolen atomic.Bool
		memory := newQueue(t, 1)
		q := &meddled{Queue: memory, before: func(_ context.Context, c call) error {
			if c.operation == "extend" && !stolen.Swap(true) {
				// Settled by hand meanwhile: no worker holds it.
				_, err := memory.Settle(context.Background(), nil, queue.Outcome{Job: c.jobs[0], Action: queue.Dead, Err: errPlain})
				return err
			}
			return nil
		}}
		cause := make(chan error, 1)
		before := time.Now()
		w := start(t, engine.Worker{Backend: q, Handler: waiting(cause)})
		if err := <-cause; !errors.Is(err, queue.ErrLost) || time.Since(before) > 11*time.Second {
			t.Errorf("context ended by %v after %v, want ErrLost at the first heartbeat", err, time.Since(before))
		}
		w.stop()
		wantCount(t, q, queue.StatusDead, 1)
		w.log.wantLogged(t, 1, "lease lost")
		w.log.wantLogged(t, 0, "job failed")
	})
}

// TestLeaseCannotBeExtended: the handler's context ends before its lease does, and jobs that wait
// are released.
func TestLeaseCannotBeExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &meddled{Queue: newQueue(t, 1), before: func(_ context.Context, c call) error {
			if c.operation == "extend" {
				return errDown
			}
			return nil
		}}
		cause := make(chan error, 1)
		before := time.Now()
		w := start(t, engine.Worker{Backend: q, Handler: waiting(cause), Lease: 30 * time.Second})
		err := <-cause
		if took := time.Since(before); !errors.Is(err, queue.ErrLost) || took < 15*time.Second || took >= 30*time.Second {
			t.Errorf("context ended by %v after %v, want ErrLost shortly before the lease's end", err, took)
		}
		w.cancel()
		_, _ = w.wait()
		wantCount(t, q, queue.StatusPending, 1)
		if r := record(t, q, &queue.Job{ID: 1}); r.Attempt != 1 || !strings.Contains(r.LastError, "the lease could not be extended in time") {
			t.Errorf("%d attempts used, last error %q; want one, as after a crash, and why", r.Attempt, r.LastError)
		}
		w.log.wantLogged(t, 1, "extend failed")
		w.log.wantLogged(t, 1, "lease could not be extended")
	})
}

// TestWaitingJobsReleasedBeforeTheirLeasesExpire: if leases cannot be extended, the worker releases
// the jobs that wait before their leases expire.
func TestWaitingJobsReleasedBeforeTheirLeasesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stale atomic.Bool
		q := &meddled{Queue: newQueue(t, 100), before: func(_ context.Context, c call) error {
			if stale.Load() && c.operation == "extend" {
				return errDown
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(time.Minute), Concurrency: 10, Prefetch: time.Hour, Grace: time.Hour})
		time.Sleep(90 * time.Second)
		wantCount(t, q, queue.StatusRunning, 90)
		stale.Store(true)
		time.Sleep(28 * time.Second)
		w.log.wantLogged(t, 10, "lease could not be extended")
		w.log.wantLogged(t, 1, "extend failed")
		w.cancel()
		if _, err := w.wait(); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		wantCount(t, q, queue.StatusRunning, 0)
		for id := range int64(100) {
			if r := record(t, q, &queue.Job{ID: id + 1}); r.Status == queue.StatusPending && r.Attempt != 0 {
				t.Errorf("job %d: %d attempts used, want 0", r.ID, r.Attempt)
			}
		}
	})
}

// TestClaimThatComesLate: a claim takes most of a lease. The worker does not start its jobs, but
// releases them. They run when claims are fast again.
func TestClaimThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newQueue(t, 5)
		q := &late{Queue: memory, by: 2700 * time.Millisecond, times: 2}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Second)), Lease: 3 * time.Second})
		time.Sleep(time.Minute)
		w.stop()
		wantCount(t, memory, queue.StatusCompleted, 5)
		ran.wantEach(t, 5)
		w.log.wantLogged(t, 10, "lease is about to expire before the job was started")
		w.log.wantLogged(t, 0, "lease could not be extended")
		for id := range int64(5) {
			wantJob(t, memory, &queue.Job{ID: id + 1}, queue.StatusCompleted, 1)
		}
	})
}

// TestClaimThatComesRatherLate: the rest of the lease is too short to wait for the next heartbeat,
// and long enough to extend it at once. Each job is claimed once: the time of the claim does not
// count as waiting for a slot.
func TestClaimThatComesRatherLate(t *testing.T) {
	for _, by := range []time.Duration{1200 * time.Millisecond, 2100 * time.Millisecond, 2400 * time.Millisecond} {
		for _, extending := range []time.Duration{0, 600 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				memory := newQueue(t, 5)
				q := &late{Queue: memory, by: by, times: 1, extending: extending}
				var ran tally
				w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(5 * time.Second)), Concurrency: 2, Lease: 3 * time.Second})
				time.Sleep(time.Minute)
				w.stop()
				ran.wantEach(t, 5)
				w.log.wantLogged(t, 0, "released")
				w.log.wantLogged(t, 0, "lease could not be extended")
				for id := range int64(5) {
					wantJob(t, memory, &queue.Job{ID: id + 1}, queue.StatusCompleted, 1)
				}
				if q.claimed != 5 {
					t.Errorf("late by %v, extended in %v: %d jobs claimed, want 5", by, extending, q.claimed)
				}
			})
		}
	}
}

// TestSlowExtensions: a slow Extend does not delay the next one, which is for the jobs claimed
// meanwhile.
func TestSlowExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &late{Queue: newQueue(t, 1), extending: 900 * time.Millisecond}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(20 * time.Second)), Concurrency: 2, Lease: 3 * time.Second})
		time.Sleep(1100 * time.Millisecond)
		enqueue(t, q, newTask(2))
		time.Sleep(time.Minute)
		w.stop()
		ran.wantEach(t, 2)
		w.log.wantLogged(t, 0, "lease could not be extended")
	})
}

// TestClaimThatComesLateIsLost: the jobs of a slow claim are lost before it returns.
func TestClaimThatComesLateIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newQueue(t, 2)
		q := &late{Queue: memory, by: 1200 * time.Millisecond, times: 1, lose: 1}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Second)), Concurrency: 2, Lease: 3 * time.Second})
		time.Sleep(time.Minute)
		w.stop()
		w.log.wantLogged(t, 1, "lease lost")
		ran.wantEach(t, 2)
		wantJob(t, memory, &queue.Job{ID: 1}, queue.StatusCompleted, 2)
		wantJob(t, memory, &queue.Job{ID: 2}, queue.StatusCompleted, 1)
	})
}

// late is the memory queue, but its first claims of jobs are slow, and its extensions may be.
type late struct {
	*queuetest.Queue
	by        time.Duration
	times     int
	extending time.Duration
	lose      int // before how many extensions the first of the jobs is lost
	claimed   int
}

func (l *late) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	jobs, err := l.Queue.Claim(ctx, req)
	l.claimed += len(jobs)
	if len(jobs) > 0 && l.times > 0 {
		l.times--
		time.Sleep(l.by)
	}
	return jobs, err
}

func (l *late) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	for ; l.lose > 0; l.lose-- {
		if _, err := l.Settle(ctx, nil, queue.Outcome{Job: jobs[0], Action: queue.Retry}); err != nil {
			return nil, nil, err
		}
	}
	lost, asked, err = l.Queue.Extend(ctx, lease, jobs...)
	time.Sleep(l.extending)
	return lost, asked, err
}

// stubborn returns a handler that ignores its context until the channel is closed.
func stubborn(let chan struct{}) queue.Handler {
	return queue.HandlerFunc(func(context.Context, *queue.Job) error {
		beStubborn(let)
		return nil
	})
}

func beStubborn(let chan struct{}) { <-let }

// TestStuckHandlerReported: a handler that ignores its timeout is reported once, with its stack,
// and the worker runs other jobs.
func TestStuckHandlerReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		let := make(chan struct{})
		w := start(t, engine.Worker{Backend: q, Handler: stubborn(let), Timeout: time.Second})
		time.Sleep(time.Hour)
		found := w.log.find(t, "ignores that its context has ended")
		if len(found) != 1 {
			t.Fatalf("reported %d times, want once; the log:\n%s", len(found), w.log)
		}
		if found[0]["kind"] != work.Name || found[0]["job"] != 1.0 {
			t.Errorf("reported as %v, want kind and id of the job", found[0])
		}
		wantText(t, found[0]["stack"].(string), "beStubborn")
		close(let)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 1)
	})
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		mux := queue.NewMux()
		took := make(map[string]time.Duration)
		for _, kind := range []queue.Kind[int]{
			{Name: "the worker's"}, {Name: "longer", Timeout: time.Hour}, {Name: "shorter", Timeout: time.Second}, {Name: "none", Timeout: -1},
		} {
			kind.Handle(mux, func(ctx context.Context, job *queue.Job, _ int) error {
				before := time.Now()
				select {
				case <-ctx.Done():
					if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
						t.Errorf("%s: cause %v, want DeadlineExceeded", kind.Name, context.Cause(ctx))
					}
				case <-time.After(10 * time.Hour):
				}
				took[kind.Name] = time.Since(before)
				return ctx.Err()
			})
			enqueue(t, q, kind.New(0))
		}
		w := start(t, engine.Worker{Backend: q, Handler: queue.Chain(mux), Timeout: time.Minute, Concurrency: 1})
		time.Sleep(24 * time.Hour)
		w.stop()
		for name, want := range map[string]time.Duration{
			"the worker's": time.Minute, "longer": time.Hour, "shorter": time.Second, "none": 10 * time.Hour,
		} {
			if took[name] != want {
				t.Errorf("%s: ended after %v, want %v", name, took[name], want)
			}
		}
	})
}
