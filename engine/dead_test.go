package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// deaths has the calls of OnDead.
type deaths struct {
	mu   sync.Mutex
	jobs []queue.Job
	errs []error
}

func (d *deaths) add(_ context.Context, job *queue.Job, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs = append(d.jobs, *job)
	d.errs = append(d.errs, err)
}

// only returns the one call of OnDead.
func (d *deaths) only(t *testing.T) (queue.Job, error) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.jobs) != 1 {
		t.Fatalf("calls of OnDead: got %d (%v), want 1", len(d.jobs), d.errs)
	}
	return d.jobs[0], d.errs[0]
}

// TestOnDead: OnDead is called for each way in which a run makes its job dead, and for no other
// outcome.
func TestOnDead(t *testing.T) {
	for _, c := range []struct {
		name    string
		job     *queue.Job
		handler queue.HandlerFunc
		want    error
	}{
		{"discarded", newTask(0), returning(queue.Discard(errPlain)), errPlain},
		{"last attempt", &queue.Job{Kind: "k", MaxAttempts: 1}, returning(errPlain), errPlain},
		{"panic in the last attempt", &queue.Job{Kind: "k", MaxAttempts: 1}, func(context.Context, *queue.Job) error { panic(errPlain) }, errPlain},
		{"retried", newTask(0), returning(errPlain), nil},
		{"done", newTask(0), returning(nil), nil},
		{"snoozed in the last attempt", &queue.Job{Kind: "k", MaxAttempts: 1}, returning(queue.Snooze(time.Hour)), nil},
		{"settled by its handler", newTask(0), returning(queue.ErrSettled), nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 0)
			job := *c.job
			enqueue(t, q, &job)
			var calls deaths
			w := start(t, engine.Worker{Backend: q, Handler: c.handler, OnDead: calls.add, Timeout: time.Second})
			time.Sleep(3 * time.Second)
			w.stop()
			if c.want == nil {
				if len(calls.jobs) > 0 {
					t.Errorf("%s: got calls of OnDead with %v, want none", c.name, calls.errs)
				}
				return
			}
			got, err := calls.only(t)
			if got.ID != job.ID || !errors.Is(err, c.want) || record(t, q, &job).LastError != queue.ErrorText(err) {
				t.Errorf("%s: got job %d with %v, want job %d with %v, which is stored", c.name, got.ID, err, job.ID, c.want)
			}
			wantJob(t, q, &job, queue.StatusDead, 1)
		})
	}
}

func returning(err error) queue.HandlerFunc {
	return func(context.Context, *queue.Job) error { return err }
}

func TestOnDeadUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		var calls deaths
		w := start(t, engine.Worker{Backend: illegible{q, 1}, Handler: taking(0), OnDead: calls.add})
		time.Sleep(time.Second)
		w.stop()
		_, err := calls.only(t)
		wantText(t, err.Error(), "no such number")
	})
}

// crash claims all jobs for a worker that then crashes.
func crash(t *testing.T, q queue.Consumer, jobs int) {
	t.Helper()
	got, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: jobs, Lease: time.Second, Worker: "crasher"})
	if err != nil || len(got) != jobs {
		t.Fatalf("claimed %d jobs (%v), want %d", len(got), err, jobs)
	}
}

// enqueueOnce enqueues jobs with a single attempt.
func enqueueOnce(t *testing.T, q queue.Enqueuer, n int) {
	t.Helper()
	jobs := newTasks(n)
	for _, job := range jobs {
		job.MaxAttempts = 1
	}
	enqueue(t, q, jobs...)
}

// TestOnDeadReclaimed: the worker that reclaims a job after a crash in its last attempt calls
// OnDead, and logs the death.
func TestOnDeadReclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		enqueueOnce(t, q, 1)
		crash(t, q, 1)
		enqueue(t, q, newTask(2)) // it is reclaimed and runs again
		crash(t, q, 1)
		var calls deaths
		w := start(t, engine.Worker{Backend: q, Handler: taking(0), OnDead: calls.add})
		time.Sleep(time.Minute)
		w.stop()
		job, err := calls.only(t)
		if job.ID != 1 || job.Kind != work.Name || job.Payload != nil || !errors.Is(err, queue.ErrLost) {
			t.Errorf("got job %+v with %v, want job 1 without its payload, and ErrLost", job, err)
		}
		if text := record(t, q, &job).LastError; text != err.Error() {
			t.Errorf("error: got %q, want %q, as it is stored", err, text)
		}
		w.log.wantLogged(t, 1, "job is dead")
		w.log.wantLogged(t, 1, "lease expired, job reclaimed")
		wantCount(t, q, queue.StatusCompleted, 1)
	})
}

// TestOnDeadAtShutdown: a worker that begins to stop while the backend reclaims a dead job waits
// for the answer, and calls OnDead.
func TestOnDeadAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		q := &answeringReclaim{Queue: newQueue(t, 0), answer: answerAfter(begun, time.Second)}
		enqueueOnce(t, q.Queue, 1)
		crash(t, q.Queue, 1)
		var calls deaths
		w := start(t, engine.Worker{Backend: q, Handler: taking(0), OnDead: calls.add})
		<-begun
		if took := w.stop(); took > 2*time.Second {
			t.Errorf("Run took %v to stop", took)
		}
		if job, err := calls.only(t); job.ID != 1 || !errors.Is(err, queue.ErrLost) {
			t.Errorf("got job %d with %v, want job 1, and ErrLost", job.ID, err)
		}
	})
}

// TestOnDeadIsCalledAgain: if the process crashes during OnDead, the job is not settled, and OnDead
// is called by the worker that reclaims the job.
func TestOnDeadIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		enqueueOnce(t, q, 1)
		var frozen atomic.Bool
		never := make(chan struct{})
		cut := &meddled{Queue: q, before: func(ctx context.Context, _ call) error {
			if frozen.Load() { // as if the process had ended
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		first := start(t, engine.Worker{Backend: cut, Handler: returning(errPlain), OnDead: func(context.Context, *queue.Job, error) {
			frozen.Store(true)
			<-never
		}})
		until(t, "OnDead called", frozen.Load)
		wantCount(t, q, queue.StatusRunning, 1)
		var calls deaths
		second := start(t, engine.Worker{Backend: q, Handler: taking(0), OnDead: calls.add})
		time.Sleep(5 * time.Minute)
		second.stop()
		if job, err := calls.only(t); job.ID != 1 || !errors.Is(err, queue.ErrLost) {
			t.Errorf("got job %d with %v, want job 1, and ErrLost", job.ID, err)
		}
		wantCount(t, q, queue.StatusDead, 1)
		close(never)
		first.cancel()
		_, _ = first.wait()
	})
}

// TestOnDeadSlow: OnDead takes its job's slot and nothing else. The worker settles other jobs and
// extends the lease of the job meanwhile. ctx ends after ten seconds.
func TestOnDeadSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		q := newQueue(t, n)
		var took time.Duration
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			if job.ID == 1 {
				return queue.Discard(errPlain)
			}
			time.Sleep(time.Millisecond)
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: 2, Lease: time.Second, OnDead: func(ctx context.Context, _ *queue.Job, _ error) {
			from := time.Now()
			<-ctx.Done()
			took = time.Since(from)
		}})
		time.Sleep(5 * time.Second)
		wantCount(t, q, queue.StatusCompleted, n-1)
		wantCount(t, q, queue.StatusRunning, 1)
		time.Sleep(6 * time.Second)
		wantCount(t, q, queue.StatusDead, 1)
		if took != 10*time.Second {
			t.Errorf("OnDead's context ended after %v, want 10 s", took)
		}
		w.stop()
		wantJob(t, q, &queue.Job{ID: 1}, queue.StatusDead, 1)
	})
}

// TestOnDeadStuck: an OnDead that ignores its context is reported with its stack, and Run returns.
func TestOnDeadStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		let := make(chan struct{})
		w := start(t, engine.Worker{Backend: q, Handler: returning(queue.Discard(errPlain)), Grace: time.Second,
			OnDead: func(context.Context, *queue.Job, error) { beStubborn(let) }})
		time.Sleep(time.Minute)
		w.cancel()
		if took, err := w.wait(); err == nil || took > 9*time.Second {
			t.Errorf("Run returned %v after %v, want an error within 8 s of Grace", err, took)
		}
		found := w.log.find(t, "ignores that its context has ended")
		if len(found) != 1 {
			t.Fatalf("reported %d times, want once; the log:\n%s", len(found), w.log)
		}
		wantText(t, found[0]["stack"].(string), "beStubborn")
		close(let)
	})
}

// TestOnDeadStuckReclaimed: each call for a reclaimed job that ignores its context is reported
// once, with its stack.
func TestOnDeadStuckReclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce = 10
		q := newQueue(t, 0)
		enqueueOnce(t, q, 2*atOnce)
		crash(t, q, 2*atOnce)
		let := make(chan struct{})
		w := start(t, engine.Worker{Backend: q, Handler: taking(0), OnDead: func(context.Context, *queue.Job, error) { beStubborn(let) }})
		time.Sleep(5 * time.Minute)
		found := w.log.find(t, "OnDead ignores that its context has ended")
		if len(found) != atOnce {
			t.Fatalf("reported %d times, want once for each of %d calls; the log:\n%s", len(found), atOnce, w.log)
		}
		wantText(t, found[0]["stack"].(string), "beStubborn")
		close(let)
		w.stop()
	})
}

// TestOnDeadBroken: after a panic, and after runtime.Goexit, the job is settled and its slot runs
// the next job; of reclaimed jobs, the next call is made.
func TestOnDeadBroken(t *testing.T) {
	for _, broken := range []func(){func() { panic("broken alert") }, exitGoroutine} {
		for _, isReclaimed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				const n = 30
				q := newQueue(t, 0)
				enqueueOnce(t, q, n)
				if isReclaimed {
					crash(t, q, n)
				}
				var calls tally
				w := start(t, engine.Worker{Backend: q, Handler: returning(errPlain), Concurrency: 2, OnDead: func(_ context.Context, job *queue.Job, _ error) {
					calls.add(job)
					broken()
				}})
				time.Sleep(time.Minute)
				w.stop()
				calls.wantEach(t, n)
				wantCount(t, q, queue.StatusDead, n)
			})
		}
	}
}

// TestOnDeadManyReclaimed: slow calls for reclaimed jobs run ten at a time, and hold up neither
// reclaiming nor other jobs. When the worker stops, they may go on within Grace. Jobs without a
// call are counted.
func TestOnDeadManyReclaimed(t *testing.T) {
	for _, c := range []struct {
		name            string
		grace           time.Duration
		called, tooMuch int
	}{
		{"within Grace", time.Minute, 100, 0},
		{"Grace is over", time.Second, 40, 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 0)
			enqueueOnce(t, q, 100)
			crash(t, q, 100)
			var called, now, most atomic.Int32
			w := start(t, engine.Worker{Backend: q, Handler: taking(0), Lease: 2 * time.Second, Grace: c.grace, OnDead: func(ctx context.Context, _ *queue.Job, _ error) {
				called.Add(1)
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}})
			until(t, "all reclaimed", func() bool { return count(t, q, queue.StatusDead) == 100 })
			enqueue(t, q, newTask(0))
			time.Sleep(100 * time.Millisecond)
			wantCount(t, q, queue.StatusCompleted, 1)
			took := w.stop()
			if most.Load() != 10 {
				t.Errorf("%s: calls at once: got %d, want 10", c.name, most.Load())
			}
			if int(called.Load()) != c.called {
				t.Errorf("%s: got %d calls, want %d; Run took %v", c.name, called.Load(), c.called, took)
			}
			missed := 0
			for _, rec := range w.log.find(t, "OnDead not called") {
				missed += int(rec["omitted"].(float64))
			}
			if missed != c.tooMuch {
				t.Errorf("%s: jobs without a call: logged %d, want %d", c.name, missed, c.tooMuch)
			}
		})
	}
}

// TestOnDeadAfterGrace: a job that its handler discards when Grace has ended is announced and
// settled.
func TestOnDeadAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		var left time.Duration
		handler := queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			return queue.Discard(errPlain)
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Grace: time.Second, OnDead: func(ctx context.Context, _ *queue.Job, _ error) {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			<-ctx.Done()
		}})
		time.Sleep(time.Second)
		w.stop()
		wantCount(t, q, queue.StatusDead, 1)
		if left != 2*time.Second {
			t.Errorf("time for OnDead after Grace: got %v, want 2 s", left)
		}
	})
}

// TestOnDeadLostJob: OnDead is not called for a job that the worker has lost.
func TestOnDeadLostJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		enqueue(t, q, newTask(1))
		var calls deaths
		handler := queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			return queue.Discard(errPlain)
		})
		w := start(t, engine.Worker{Backend: thief{q}, Handler: handler, OnDead: calls.add})
		time.Sleep(time.Minute)
		w.stop()
		if len(calls.jobs) > 0 {
			t.Errorf("calls of OnDead: got %d, want none", len(calls.jobs))
		}
	})
}
