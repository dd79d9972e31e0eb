package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// events has the events of a worker.
type events struct {
	mu  sync.Mutex
	all []queue.Event
}

func (e *events) add(event queue.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// of returns the events of a job as text: type, error, delay in seconds and time taken in seconds.
func (e *events) of(job *queue.Job) (texts []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		if event.Job.ID == job.ID {
			texts = append(texts, fmt.Sprintf("%s %v %v %v", event.Type, event.Err, event.Delay.Truncate(time.Second), event.Took))
		}
	}
	return texts
}

func (e *events) want(t *testing.T, job *queue.Job, want ...string) {
	t.Helper()
	if got := e.of(job); !slices.Equal(got, want) {
		t.Errorf("events of job %d:\ngot  %q\nwant %q", job.ID, got, want)
	}
}

// TestObserve: each way in which a run ends has its event, and the database has recorded it by
// then.
func TestObserve(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler queue.HandlerFunc
		status  queue.Status
		want    []string
	}{
		{"done", taking(time.Second), queue.StatusCompleted, []string{"started <nil> 0s 0s", "completed <nil> 0s 1s"}},
		{"failed", returning(queue.RetryAfter(time.Minute, errPlain)), queue.StatusPending, []string{"started <nil> 0s 0s", "retried plain 1m0s 0s"}},
		{"discarded", returning(queue.Discard(errPlain)), queue.StatusDead, []string{"started <nil> 0s 0s", "dead plain 0s 0s"}},
		{"snoozed", returning(queue.Snooze(time.Hour)), queue.StatusPending, []string{"started <nil> 0s 0s", "released queue: snoozed for 1h0m0s 1h0m0s 0s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 0)
			job := newTask(0)
			enqueue(t, q, job)
			var seen events
			w := start(t, engine.Worker{Backend: q, Handler: c.handler, Observe: func(e queue.Event) {
				seen.add(e)
				if e.Type != queue.EventStarted {
					wantJob(t, q, job, c.status, map[bool]int{true: 0, false: 1}[e.Type == queue.EventReleased])
				}
			}})
			time.Sleep(10 * time.Second)
			w.stop()
			seen.want(t, job, c.want...)
		})
	}
}

// TestObserveSettled: a handler that has settled its job itself has completed it.
func TestObserveSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		job := newTask(0)
		enqueue(t, q, job)
		var seen events
		w := start(t, engine.Worker{Backend: q, Observe: seen.add, Handler: queue.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
			if _, err := q.Settle(ctx, nil, queue.Outcome{Job: j}); err != nil {
				return err
			}
			time.Sleep(time.Minute) // a heartbeat says that the job is lost
			return queue.ErrSettled
		})})
		time.Sleep(2 * time.Minute)
		w.stop()
		seen.want(t, job, "started <nil> 0s 0s", "completed <nil> 0s 1m0s")
	})
}

// TestObserveLost: a job that a different worker holds is lost: while it runs, while it waits for a
// slot, and when Settle says so.
func TestObserveLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		running, waiting, settled := newTask(0), newTask(1), newTask(2)
		var seen events
		thief := func(job *queue.Job) { // settles as the worker itself would
			if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: job, Action: queue.Dead}); err != nil {
				t.Error(err)
			}
		}
		b := &claimed{meddled: &meddled{Queue: q, before: func(context.Context, call) error { return nil }}}
		w := start(t, engine.Worker{Backend: b, Observe: seen.add, Concurrency: 1, Prefetch: time.Minute,
			Handler: queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
				switch job.ID {
				case running.ID:
					for _, j := range b.held() {
						if j.ID != settled.ID {
							thief(j)
						}
					}
					<-ctx.Done()
				case settled.ID:
					thief(job)
				}
				return nil
			})})
		enqueue(t, q, newTask(9), newTask(10)) // the pace
		time.Sleep(time.Second)
		enqueue(t, q, running, waiting, settled)
		time.Sleep(time.Minute)
		w.stop()
		seen.want(t, running, "started <nil> 0s 0s", fmt.Sprintf("lost %v 0s 9s", queue.ErrLost))
		seen.want(t, waiting, fmt.Sprintf("lost %v 0s 0s", queue.ErrLost))
		seen.want(t, settled, "started <nil> 0s 0s", fmt.Sprintf("lost %v 0s 0s", queue.ErrLost))
	})
}

// claimed notes the jobs that a backend claims.
type claimed struct {
	*meddled
	mu   sync.Mutex
	jobs []*queue.Job
}

func (c *claimed) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	jobs, err := c.meddled.Claim(ctx, req)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, jobs...)
	return jobs, err
}

func (c *claimed) held() []*queue.Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.jobs)
}

// TestObserveCrash: a reclaimed job is retried, or dead after its last attempt, because of ErrLost.
func TestObserveCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		again, last := &queue.Job{Kind: "k", MaxAttempts: 2}, &queue.Job{Kind: "k", MaxAttempts: 1}
		enqueue(t, q, again, last)
		if held, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"default"}, Limit: 2, Lease: time.Second, Worker: "crashed"}); err != nil || len(held) != 2 {
			t.Fatalf("claimed %d, error %v", len(held), err)
		}
		var seen events
		w := start(t, engine.Worker{Backend: q, Observe: seen.add, Handler: returning(nil)})
		time.Sleep(time.Minute)
		w.stop()
		const text = "errand: the lease of worker crashed expired"
		slices.SortStableFunc(seen.all, func(a, b queue.Event) int { return -strings.Compare(string(a.Type), string(b.Type)) })
		seen.want(t, again, "started <nil> 0s 0s", "retried "+text+" 0s 0s", "completed <nil> 0s 0s") // in any order
		seen.want(t, last, "dead "+text+" 0s 0s")
		for _, e := range seen.all {
			if e.Err != nil && !errors.Is(e.Err, queue.ErrLost) {
				t.Errorf("%s: got error %v, want ErrLost in it", e.Type, e.Err)
			}
		}
	})
}

// TestObserveThatPanics: an Observe that panics, or ends its goroutine, keeps no job from running.
func TestObserveThatPanics(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 50)
			var seen events
			w := start(t, engine.Worker{Backend: q, Handler: returning(nil), Observe: func(e queue.Event) {
				seen.add(e)
				if e.Type != queue.EventStarted || name == "panic" {
					end()
				}
			}})
			time.Sleep(time.Minute)
			w.stop()
			wantCount(t, q, queue.StatusCompleted, 50)
			if n := len(seen.all); n != 100 {
				t.Errorf("%s: got %d events, want 100", name, n)
			}
			if name == "panic" {
				w.log.wantCounted(t, 100, "errand: Observe panicked")
			}
		})
	}
}

// TestObserveShutdown: Run returns after the last event.
func TestObserveShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		job := newTask(0)
		enqueue(t, q, job)
		var seen events
		w := start(t, engine.Worker{Backend: q, Observe: func(e queue.Event) { time.Sleep(time.Second); seen.add(e) }, Grace: time.Second,
			Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error { <-ctx.Done(); return ctx.Err() })})
		time.Sleep(5 * time.Second)
		w.stop()
		seen.want(t, job, "started <nil> 0s 0s", "released <nil> 0s 6s")
	})
}
