package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// unnotified is a queue that cancels jobs but tells no worker: heartbeats must do.
type unnotified struct{ *queuetest.Queue }

func (u unnotified) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	return u.Queue.Listen(ctx, worker, queues, func(s driver.Signal) {
		s.Cancels, s.IDs = false, nil
		tell(s)
	})
}

func cancelJobs(t *testing.T, q driver.Canceller, jobs ...*queue.Job) {
	t.Helper()
	which := queue.Selection{IDs: []int64{}}
	for _, job := range jobs {
		which.IDs = append(which.IDs, job.ID)
	}
	if n, err := q.Cancel(t.Context(), nil, which); err != nil || n != len(jobs) {
		t.Fatalf("Cancel: got %d, error %v; want %d", n, err, len(jobs))
	}
}

// TestCancelRunning: the context of a cancelled handler ends with ErrCancelled, at once if the
// backend notifies, else within a heartbeat. Its answer decides what becomes of the job.
func TestCancelRunning(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(ctx context.Context) error
		want   queue.Status
		logged int
	}{
		{"context's error", context.Context.Err, queue.StatusCancelled, 1},
		{"nil", func(context.Context) error { return nil }, queue.StatusCompleted, 0},
		{"retry", func(context.Context) error { return queue.RetryAfter(0, errPlain) }, queue.StatusCancelled, 1},
		{"snooze", func(context.Context) error { return queue.Snooze(time.Hour) }, queue.StatusCancelled, 1},
		{"discard", func(context.Context) error { return queue.Discard(errPlain) }, queue.StatusDead, 0},
		{"panic", func(context.Context) error { panic("late") }, queue.StatusCancelled, 1},
	} {
		for _, notified := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, 0)
				job := newTask(0)
				job.MaxAttempts = 1
				enqueue(t, q, job)
				began := make(chan struct{})
				var cancelled, ended time.Time
				var dead deaths
				var events []queue.EventType
				observe := func(e queue.Event) { events = append(events, e.Type) }
				w := engine.Worker{Backend: q, OnDead: dead.add, Observe: observe, Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
					close(began)
					<-ctx.Done()
					if ended = time.Now(); !errors.Is(context.Cause(ctx), queue.ErrCancelled) || !queue.EndedByWorker(ctx) {
						t.Errorf("%s: cause of the context's end: got %v, want ErrCancelled", c.name, context.Cause(ctx))
					}
					return c.answer(ctx)
				})}
				if !notified {
					w.Backend = unnotified{q}
				}
				r := start(t, w)
				<-began
				time.Sleep(time.Second)
				cancelled = time.Now()
				cancelJobs(t, q, job)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				took, limit := ended.Sub(cancelled), 10*time.Second
				if notified {
					limit = 0
				}
				if took < 0 || took > limit {
					t.Errorf("%s: from Cancel to the context's end: got %v, want at most %v", c.name, took, limit)
				}
				wantJob(t, q, job, c.want, 1)
				if deaths := len(dead.jobs); (deaths > 0) != (c.want == queue.StatusDead) {
					t.Errorf("%s: calls of OnDead: got %d", c.name, deaths)
				}
				r.stop()
				if want := []queue.EventType{queue.EventStarted, queue.EventType(c.want)}; !slices.Equal(events, want) {
					t.Errorf("%s: events: got %v, want %v", c.name, events, want)
				}
				r.log.wantLogged(t, c.logged, "job cancelled")
			})
		}
	}
}

// TestCancelWaiting: a job that waits for a slot of its worker is cancelled without having run.
func TestCancelWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		jobs := newTasks(40)
		enqueue(t, q, jobs...)
		var ran []int64
		r := start(t, engine.Worker{Backend: q, Concurrency: 1, Prefetch: time.Minute, Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			ran = append(ran, job.ID)
			time.Sleep(time.Second)
			return nil
		})})
		time.Sleep(10500 * time.Millisecond)
		var last *queue.Job
		for _, job := range jobs {
			if rec := record(t, q, job); rec.Status == queue.StatusRunning {
				last = job
			}
		}
		cancelJobs(t, q, last)
		synctest.Wait()
		wantJob(t, q, last, queue.StatusCancelled, 0)
		time.Sleep(time.Minute)
		wantCount(t, q, queue.StatusCompleted, len(jobs)-1)
		if slices.Contains(ran, last.ID) {
			t.Error("a cancelled job that waited for a slot has run")
		}
		r.stop()
	})
}

// TestCancelHinted: a hint that comes before the claim's answer is not lost.
func TestCancelHinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &claimsLate{Queue: newQueue(t, 1)}
		var ended time.Time
		r := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			ended = time.Now()
			return ctx.Err()
		})})
		time.Sleep(500 * time.Millisecond)
		cancelJobs(t, q, &queue.Job{ID: 1})
		time.Sleep(505 * time.Millisecond)
		synctest.Wait()
		if ended.IsZero() && count(t, q, queue.StatusCancelled) == 0 {
			t.Error("a job that was cancelled while its claim was under way runs on")
		}
		r.stop()
	})
}

// claimsLate is a queue whose claims return a second after they have claimed jobs.
type claimsLate struct{ *queuetest.Queue }

func (q *claimsLate) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	jobs, err := q.Queue.Claim(ctx, req)
	if len(jobs) > 0 {
		time.Sleep(time.Second)
	}
	return jobs, err
}

// TestCancelFrozen: a job whose worker has stopped working is cancelled when its lease has expired,
// and what the worker says later changes nothing.
func TestCancelFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newQueue(t, 1)
		var frozen atomic.Bool
		q := &meddled{inner, func(ctx context.Context, c call) error {
			if frozen.Load() && c.operation != "claim" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		var dead deaths
		r := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			time.Sleep(2 * time.Minute)
			return errPlain
		})})
		time.Sleep(time.Second)
		frozen.Store(true)
		cancelJobs(t, inner, &queue.Job{ID: 1})
		other := start(t, engine.Worker{Backend: inner, OnDead: dead.add, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
			t.Error("a cancelled job has been run again")
			return nil
		})})
		time.Sleep(61 * time.Second)
		wantCount(t, inner, queue.StatusCancelled, 1)
		frozen.Store(false)
		time.Sleep(2 * time.Minute)
		wantCount(t, inner, queue.StatusCancelled, 1)
		if len(dead.jobs) != 0 {
			t.Errorf("OnDead was called %d times for a cancelled job", len(dead.jobs))
		}
		other.stop()
		r.stop()
	})
}

// TestCancelAtShutdown: a cancelled job whose handler does not return is not run again, and a
// cancel that comes during Grace still ends its handler.
func TestCancelAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		r := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})})
		time.Sleep(time.Second)
		r.cancel()
		time.Sleep(time.Second)
		cancelJobs(t, q, &queue.Job{ID: 1})
		synctest.Wait()
		wantCount(t, q, queue.StatusCancelled, 1)
		if took, err := r.wait(); err != nil || took > time.Second {
			t.Errorf("Run: took %v, error %v", took, err)
		}
	})
}
