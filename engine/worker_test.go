package engine_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// tally counts the runs of each job.
type tally struct {
	mu   sync.Mutex
	runs map[int64]int
}

func (c *tally) add(job *queue.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = make(map[int64]int)
	}
	c.runs[job.ID]++
}

// wantEach expects that that many jobs have run, each once.
func (c *tally) wantEach(t *testing.T, jobs int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) != jobs {
		t.Errorf("jobs that ran: got %d, want %d", len(c.runs), jobs)
	}
	for id, n := range c.runs {
		if n != 1 {
			t.Errorf("job %d: got %d runs, want 1", id, n)
		}
	}
}

// handle returns a handler that counts its runs and then calls do.
func (c *tally) handle(do func(ctx context.Context, job *queue.Job) error) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		c.add(job)
		return do(ctx, job)
	})
}

// taking returns a handler that takes d.
func taking(d time.Duration) queue.HandlerFunc {
	return func(context.Context, *queue.Job) error {
		time.Sleep(d)
		return nil
	}
}

func TestWorkerRunsEveryJobOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3000
		q := newQueue(t, n)
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Millisecond))})
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == n })
		w.stop()
		ran.wantEach(t, n)
		if got := w.log.String(); got != "" {
			t.Errorf("log of a worker without trouble: got %s, want nothing", got)
		}
	})
}

func TestWorkerServesQueuesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		for _, name := range []string{"low", "high", "low", "high", "other"} {
			job := newTask(0)
			job.Queue = name
			enqueue(t, q, job)
		}
		var order []string // appended to by one handler at a time
		handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			order = append(order, job.Queue)
			if len(order) == 3 { // enqueued later, but of a queue that goes first
				late := newTask(0)
				late.Queue = "high"
				return q.Enqueue(ctx, nil, late)
			}
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Queues: []string{"high", "low"}, Concurrency: 1, Prefetch: -1})
		time.Sleep(time.Minute)
		w.stop()
		if want := []string{"high", "high", "low", "high", "low"}; !slices.Equal(order, want) {
			t.Errorf("order: got %v, want %v", order, want)
		}
		wantCount(t, q, queue.StatusPending, 1)
	})
}

func TestWorkerConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, n = 7, 70
		q := newQueue(t, n)
		var now, most atomic.Int32
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
			for m := now.Add(1); m > most.Load(); {
				most.Store(m)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: slots, Poll: time.Hour})
		from := time.Now()
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == n })
		w.stop()
		if got := most.Load(); got != slots {
			t.Errorf("handlers at once: got %d, want %d", got, slots)
		}
		// A freed slot claims at once: no round waits for the poll.
		if took := time.Since(from); took > n/slots*time.Second+100*time.Millisecond {
			t.Errorf("%d rounds of a second: got %v", n/slots, took)
		}
	})
}

func TestWorkersRunConcurrentlyFromOneLiteral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		q := newQueue(t, n)
		var ran tally
		literal := engine.Worker{Backend: q, Handler: ran.handle(taking(50 * time.Millisecond)), Concurrency: 3}
		a, b := start(t, literal), start(t, literal)
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == n })
		a.stop()
		enqueue(t, q, newTask(n))
		until(t, "the last completed", func() bool { return count(t, q, queue.StatusCompleted) == n+1 })
		b.stop()
		ran.wantEach(t, n+1)

		enqueue(t, q, newTask(n+1))
		again := start(t, literal)
		until(t, "run again", func() bool { return count(t, q, queue.StatusCompleted) == n+2 })
		again.stop()
	})
}

func TestWorkerPassesContextValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var got any
		handler := queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			got = ctx.Value(key{})
			cancel()
			return ctx.Err() // the handler's context outlives Run's
		})
		q := newQueue(t, 1)
		if err := (engine.Worker{Backend: q, Handler: handler}).Run(ctx); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		if got != "value" {
			t.Errorf("value in the handler's context: got %v, want %q", got, "value")
		}
		wantCount(t, q, queue.StatusCompleted, 1)
	})
}

func TestWorkerWithItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q := newQueue(t, 1)
		if err := (engine.Worker{Backend: q, Handler: taking(0)}).Run(ctx); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		wantCount(t, q, queue.StatusPending, 1)
	})
}

func TestWorkerFields(t *testing.T) {
	q, h := newQueue(t, 0), taking(0)
	for _, c := range []struct {
		field string
		w     engine.Worker
	}{
		{"Worker.Backend", engine.Worker{Handler: h}},
		{"Worker.Handler", engine.Worker{Backend: q}},
		{"Worker.Handler", engine.Worker{Backend: q, Handler: queue.NewMux()}},
		{"Worker.Concurrency", engine.Worker{Backend: q, Handler: h, Concurrency: -1}},
		{"Worker.Concurrency", engine.Worker{Backend: q, Handler: h, Concurrency: 100_001}},
		{"Worker.Concurrency", engine.Worker{Backend: q, Handler: h, Concurrency: math.MaxInt}},
		{"Worker.Lease", engine.Worker{Backend: q, Handler: h, Lease: -time.Second}},
		{"Worker.Lease", engine.Worker{Backend: q, Handler: h, Lease: 99 * time.Millisecond}},
		{"Lease", engine.Worker{Backend: q, Handler: h, Lease: 366 * 24 * time.Hour}},
		{"Worker.Poll", engine.Worker{Backend: q, Handler: h, Poll: -time.Second}},
		{"Worker.Poll", engine.Worker{Backend: q, Handler: h, Poll: time.Microsecond}},
		{"Worker.Timeout", engine.Worker{Backend: q, Handler: h, Timeout: -1}},
		{"Worker.Grace", engine.Worker{Backend: q, Handler: h, Grace: -1}},
		{"Queues", engine.Worker{Backend: q, Handler: h, Queues: []string{"good", ""}}},
		{"Queues", engine.Worker{Backend: q, Handler: h, Queues: []string{"b\x00d"}}},
		{"Worker.Weights", engine.Worker{Backend: q, Handler: h, Weights: map[string]int{"q": 1}}},
		{"Worker.Weights", engine.Worker{Backend: q, Handler: h, Weights: map[string]int{"default": 0}}},
		{"Worker.Weights", engine.Worker{Backend: q, Handler: h, Weights: map[string]int{"default": 10_001}}},
		{"Worker.Weights", engine.Worker{
			Backend: q, Handler: h, Queues: []string{"q", "q"}, Weights: map[string]int{"q": 1},
		}},
		{"Worker", engine.Worker{Backend: q, Handler: h, Name: strings.Repeat("n", 201)}},
	} {
		var invalid *queue.InvalidError
		if err := c.w.Run(t.Context()); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want an InvalidError", c.field, err)
		} else if invalid.Field != c.field {
			t.Errorf("field: got %q (%s), want %q", invalid.Field, invalid.Problem, c.field)
		}
	}
}
