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

// calls has the calls of a function of HandleMany.
type calls struct {
	mu  sync.Mutex
	ids [][]int64
	at  []time.Time
}

func (c *calls) add(jobs []*queue.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []int64
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	c.ids, c.at = append(c.ids, ids), append(c.at, time.Now())
}

// sizes returns how many jobs each call got.
func (c *calls) sizes() (sizes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ids := range c.ids {
		sizes = append(sizes, len(ids))
	}
	return sizes
}

func (c *calls) wantSizes(t *testing.T, want ...int) {
	t.Helper()
	if got := c.sizes(); !slices.Equal(got, want) {
		t.Errorf("sizes of the calls: got %v, want %v", got, want)
	}
}

type manyFunc = func(context.Context, []*queue.Job, []task) []error

// manyMux returns a Mux with that function for tasks.
func manyMux(how queue.BatchOptions, c *calls, fn manyFunc) *queue.Mux {
	mux := queue.NewMux()
	work.HandleMany(mux, how, func(ctx context.Context, jobs []*queue.Job, vs []task) []error {
		c.add(jobs)
		return fn(ctx, jobs, vs)
	})
	return mux
}

func allDone(context.Context, []*queue.Job, []task) []error { return nil }

// TestHandleMany: calls get as many jobs as there are, in the order of their IDs, with their
// payloads.
func TestHandleMany(t *testing.T) {
	for _, c := range []struct {
		concurrency int
		how         queue.BatchOptions
		want        []int
	}{
		{100, queue.BatchOptions{}, []int{100, 100, 50}},
		{100, queue.BatchOptions{Size: 7, Wait: time.Second}, append(slices.Repeat([]int{7}, 35), 5)},
		{20, queue.BatchOptions{}, append(slices.Repeat([]int{20}, 12), 10)},
		{1, queue.BatchOptions{}, slices.Repeat([]int{1}, 250)},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 250)
			var made calls
			mux := manyMux(c.how, &made, func(_ context.Context, jobs []*queue.Job, vs []task) []error {
				for i, j := range jobs {
					if i > 0 && j.ID < jobs[i-1].ID || vs[i].N != int(j.ID)-1 || vs[i].Note != secret {
						t.Errorf("job %d of a call: got ID %d behind %d, payload %+v", i, j.ID, jobs[max(i-1, 0)].ID, vs[i])
					}
				}
				return nil
			})
			w := start(t, engine.Worker{Backend: q, Handler: mux, Concurrency: c.concurrency, Prefetch: -1})
			time.Sleep(time.Minute)
			w.stop()
			wantCount(t, q, queue.StatusCompleted, 250)
			made.wantSizes(t, c.want...)
		})
	}
}

// TestHandleManyWaits: a job waits for others for as long as Wait says, and not beyond the end of
// the worker.
func TestHandleManyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		var made calls
		w := start(t, engine.Worker{Backend: q, Handler: manyMux(queue.BatchOptions{Wait: 10 * time.Second}, &made, allDone)})
		begun := time.Now()
		for range 3 {
			enqueue(t, q, newTask(0))
			time.Sleep(4 * time.Second)
		}
		made.wantSizes(t, 3)
		if waited := made.at[0].Sub(begun); waited < 10*time.Second || waited > 10100*time.Millisecond {
			t.Errorf("the first job waited %v, want 10s", waited)
		}
		enqueue(t, q, newTask(0))
		time.Sleep(time.Second)
		if took := w.stop(); took > time.Second {
			t.Errorf("Run took %v to return while a job waited for others, want no wait", took)
		}
		made.wantSizes(t, 3, 1)
		wantCount(t, q, queue.StatusCompleted, 4)
	})
}

// TestHandleManyAnswers: each job gets its own answer.
func TestHandleManyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		jobs := newTasks(5)
		bad := &queue.Job{Kind: work.Name, Payload: []byte(`"no task"`)}
		enqueue(t, q, append(slices.Clone(jobs), bad)...)
		var made calls
		w := start(t, engine.Worker{Backend: q, Handler: manyMux(queue.BatchOptions{}, &made, func(ctx context.Context, jobs []*queue.Job, _ []task) []error {
			if _, err := q.Settle(ctx, nil, queue.Outcome{Job: jobs[4]}); err != nil {
				t.Error(err)
			}
			return []error{nil, queue.RetryAfter(time.Hour, errPlain), queue.Discard(errPlain), queue.Snooze(time.Hour), queue.ErrSettled}
		})})
		time.Sleep(20 * time.Second) // less than the back-off
		w.stop()
		made.wantSizes(t, 5)
		wantJob(t, q, jobs[0], queue.StatusCompleted, 1)
		wantJob(t, q, jobs[1], queue.StatusPending, 1)
		wantJob(t, q, jobs[2], queue.StatusDead, 1)
		wantJob(t, q, jobs[3], queue.StatusPending, 0)
		wantJob(t, q, jobs[4], queue.StatusCompleted, 1)
		wantJob(t, q, bad, queue.StatusPending, 1)
	})
}

// TestHandleManyFails: a panic, the end of the goroutine and a wrong number of answers fail all
// jobs of the call, and no others.
func TestHandleManyFails(t *testing.T) {
	for name, c := range map[string]struct {
		fn   manyFunc
		want string
	}{
		"panic":  {func(context.Context, []*queue.Job, []task) []error { panic("boom") }, "panic: boom (many_test.go:"},
		"Goexit": {func(context.Context, []*queue.Job, []task) []error { runtime.Goexit(); return nil }, "queue: handler called runtime.Goexit"},
		"few": {func(context.Context, []*queue.Job, []task) []error { return []error{nil, nil} },
			`queue: the function of HandleMany for kind "test.work" has returned 2 answers to 5 jobs`},
		"empty": {func(context.Context, []*queue.Job, []task) []error { return []error{} },
			`queue: the function of HandleMany for kind "test.work" has returned 0 answers to 5 jobs`},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 0)
			jobs := newTasks(5)
			enqueue(t, q, jobs...)
			var made calls
			w := start(t, engine.Worker{Backend: q, Handler: manyMux(queue.BatchOptions{}, &made, c.fn)})
			time.Sleep(time.Second)
			w.stop()
			for _, j := range jobs {
				wantJob(t, q, j, queue.StatusPending, 1)
				if r := record(t, q, j); !strings.HasPrefix(r.LastError, c.want) {
					t.Errorf("%s: got error %q, want %q", name, r.LastError, c.want)
				}
			}
		})
	}
}

// TestHandleManyShutdown: the call's context ends with Grace, and its jobs are released.
func TestHandleManyShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 5)
		var made calls
		w := start(t, engine.Worker{Backend: q, Grace: 10 * time.Second, Handler: manyMux(queue.BatchOptions{}, &made, func(ctx context.Context, jobs []*queue.Job, _ []task) []error {
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, queue.ErrShutdown) {
				t.Errorf("cause: got %v, want ErrShutdown", cause)
			}
			return slices.Repeat([]error{ctx.Err()}, len(jobs))
		})})
		time.Sleep(time.Minute)
		if took := w.stop(); took != 10*time.Second {
			t.Errorf("Run took %v to return, want Grace", took)
		}
		for id := range int64(5) {
			wantJob(t, q, &queue.Job{ID: id + 1}, queue.StatusPending, 0)
		}
	})
}

// TestHandleManyTimeout: the call's context ends with the Timeout of the kind, and says so before.
func TestHandleManyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 3)
		mux := queue.NewMux()
		timed := work
		timed.Timeout = time.Minute
		timed.HandleMany(mux, queue.BatchOptions{}, func(ctx context.Context, jobs []*queue.Job, _ []task) []error {
			if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Minute {
				t.Errorf("deadline: got %v, %v; want a minute", d, ok)
			}
			<-ctx.Done()
			return slices.Repeat([]error{context.Cause(ctx)}, len(jobs))
		})
		w := start(t, engine.Worker{Backend: q, Handler: mux})
		time.Sleep(61 * time.Second)
		w.stop()
		if r := record(t, q, &queue.Job{ID: 1}); r.Attempt != 1 || r.LastError != context.DeadlineExceeded.Error() {
			t.Errorf("after the Timeout: got attempt %d, error %q", r.Attempt, r.LastError)
		}
	})
}

// TestHandleManyLost: a call goes on without a job that is lost, and ends when all are.
func TestHandleManyLost(t *testing.T) {
	for _, steal := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 3)
			var made calls
			w := start(t, engine.Worker{Backend: q, Handler: manyMux(queue.BatchOptions{}, &made, func(ctx context.Context, jobs []*queue.Job, _ []task) []error {
				for _, j := range jobs[:steal] {
					if _, err := q.Settle(ctx, nil, queue.Outcome{Job: j, Action: queue.Dead}); err != nil {
						t.Error(err)
					}
				}
				select {
				case <-ctx.Done():
					if steal < 3 || !errors.Is(context.Cause(ctx), queue.ErrLost) {
						t.Errorf("%d of 3 lost: the context has ended with %v", steal, context.Cause(ctx))
					}
				case <-time.After(time.Minute):
					if steal == 3 {
						t.Errorf("all lost: the context has not ended")
					}
				}
				return nil
			})})
			time.Sleep(2 * time.Minute)
			w.stop()
			wantCount(t, q, queue.StatusDead, steal)
			wantCount(t, q, queue.StatusCompleted, 3-steal)
		})
	}
}

// TestHandleManyByGroup: a call has jobs of one group, and of one worker.
func TestHandleManyByGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		for i := range 90 {
			job := newTask(i)
			job.Group = []string{"", "a", "b"}[i%3]
			enqueue(t, q, job)
		}
		var made calls
		mux := manyMux(queue.BatchOptions{Size: 10, ByGroup: true}, &made, func(_ context.Context, jobs []*queue.Job, _ []task) []error {
			for _, j := range jobs {
				if j.Group != jobs[0].Group || j.Worker != jobs[0].Worker {
					t.Errorf("a call with groups %q and %q, of workers %q and %q", j.Group, jobs[0].Group, j.Worker, jobs[0].Worker)
				}
			}
			return nil
		})
		for _, name := range []string{"one", "two"} {
			start(t, engine.Worker{Name: name, Backend: q, Handler: mux, Concurrency: 45})
		}
		time.Sleep(time.Minute)
		wantCount(t, q, queue.StatusCompleted, 90)
		if n := len(made.sizes()); n > 18 {
			t.Errorf("90 jobs of 3 groups took %d calls", n)
		}
	})
}

// TestHandleManyAlone: without a worker each call gets one job, at once.
func TestHandleManyAlone(t *testing.T) {
	q := newQueue(t, 3)
	var made calls
	ran, err := q.Drain(t.Context(), manyMux(queue.BatchOptions{Wait: time.Minute}, &made, allDone))
	if ran != 3 || err != nil {
		t.Fatalf("Drain: ran %d, error %v", ran, err)
	}
	made.wantSizes(t, 1, 1, 1)
}

// manyIn returns a function that calls HandleMany.
func manyIn(how queue.BatchOptions, m ...queue.Middleware) func() {
	return func() { work.HandleMany(queue.NewMux(), how, allDone, m...) }
}

// TestHandleManyMisuse: what cannot work is an error that says why.
func TestHandleManyMisuse(t *testing.T) {
	for want, f := range map[string]func(){
		"invalid BatchOptions.Size: -1: between 1 and 10000, or 0 for 100": manyIn(queue.BatchOptions{Size: -1}),
		"invalid BatchOptions.Size: 10001: ":                               manyIn(queue.BatchOptions{Size: 10_001}),
		"invalid BatchOptions.Wait: -1s: between 0 (for 50ms) and 1m0s":    manyIn(queue.BatchOptions{Wait: -time.Second}),
		"invalid BatchOptions.Wait: 2m0s: ":                                manyIn(queue.BatchOptions{Wait: 2 * time.Minute}),
		`invalid HandleMany: kind "test.work": many jobs a call, within `:  manyIn(queue.BatchOptions{}, holder(nil)),
	} {
		if v := panicOf(f); !strings.Contains(fmt.Sprint(v), want) {
			t.Errorf("HandleMany: got panic %v, want %q", v, want)
		}
	}
	inner, outer := manyMux(queue.BatchOptions{}, &calls{}, allDone), queue.NewMux()
	outer.Handle(work.Name, queue.Chain(inner, holder(nil)))
	for name, h := range map[string]queue.Handler{"chain": queue.Chain(inner, holder(nil)), "wrapper": holder(nil)(inner), "mux": outer} {
		err := engine.Worker{Backend: queuetest.New(queuetest.Options{}), Handler: h}.Run(t.Context())
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "Worker.Handler" || !strings.Contains(invalid.Problem, "middleware.Tx") {
			t.Errorf("%s: got error %v, want an InvalidError about middleware.Tx", name, err)
		}
	}
}
