package memory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
)

// inline is a queue that runs what is enqueued, and what it has run so far.
type inline struct {
	*memory.Queue
	handler queue.Handler

	mu  sync.Mutex
	ran []string // kinds
}

func newInline(handle func(ctx context.Context, q *inline, j *queue.Job) error) *inline {
	q := &inline{}
	q.handler = queue.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
		q.mu.Lock()
		q.ran = append(q.ran, j.Kind)
		q.mu.Unlock()
		return handle(ctx, q, j)
	})
	q.Queue = memory.New(memory.Options{Inline: q.handler})
	return q
}

func succeed(context.Context, *inline, *queue.Job) error { return nil }

func (q *inline) wantRan(t *testing.T, when string, want ...string) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.ran, want) {
		t.Errorf("jobs run %s: got %v, want %v", when, q.ran, want)
	}
}

func TestInlineBeforeEnqueueReturns(t *testing.T) {
	q := newInline(succeed)
	enqueue(t, q.Queue, nil, &queue.Job{Kind: "b", Queue: "z"}, &queue.Job{Kind: "a", Priority: -1}, &queue.Job{Kind: "later", Delay: time.Hour})
	q.wantRan(t, "by Enqueue", "a", "b")
	enqueue(t, q.Queue, new(sql.Tx), job("foreign"))
	q.wantRan(t, "by Enqueue through a foreign handle", "a", "b", "foreign")
	if got, want := statuses(t, q.Queue), "b completed 1, a completed 1, later pending 0, foreign completed 1"; got != want {
		t.Errorf("jobs: got %s, want %s", got, want)
	}
}

func TestInlineBeforeCommitReturns(t *testing.T) {
	q := newInline(succeed)
	tx, other := begin(t, q.Queue), begin(t, q.Queue)
	enqueue(t, q.Queue, tx, job("a"), job("b"))
	enqueue(t, q.Queue, other, job("never"))
	q.wantRan(t, "while its transaction is open")
	enqueue(t, q.Queue, nil, job("beside"))
	q.wantRan(t, "beside the transactions", "beside")
	if err := errors.Join(tx.Commit(), other.Rollback()); err != nil {
		t.Fatalf("end of the transactions: %v", err)
	}
	q.wantRan(t, "by Commit", "beside", "a", "b")
}

// TestInlineLeavesTxAlone: nothing runs while the caller's transaction is open, not even what has
// become due meanwhile: it might wait for what that has locked.
func TestInlineLeavesTxAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInline(succeed)
		enqueue(t, q.Queue, nil, &queue.Job{Kind: "later", Delay: time.Hour})
		time.Sleep(2 * time.Hour)
		tx := begin(t, q.Queue)
		enqueue(t, q.Queue, tx, job("now"))
		q.wantRan(t, "by Enqueue in a transaction")
		if err := tx.Commit(); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		q.wantRan(t, "by Commit", "later", "now")
	})
}

// TestInlineFailure: what fails inline is what it is in production: recorded, and tried again after
// its back-off.
func TestInlineFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInline(func(_ context.Context, _ *inline, j *queue.Job) error {
			switch {
			case j.Kind == "panic":
				panic("boom")
			case j.Kind == "error" && j.Attempt < 3:
				return fmt.Errorf("failure %d", j.Attempt)
			}
			return nil
		})
		enqueue(t, q.Queue, nil, job("error"), &queue.Job{Kind: "panic", MaxAttempts: 1})
		q.wantRan(t, "at once", "error", "panic")
		if got, want := statuses(t, q.Queue), "error pending 1, panic dead 1"; got != want {
			t.Errorf("jobs: got %s, want %s", got, want)
		}
		failed, _, _ := q.Job(t.Context(), 1)
		panicked, _, _ := q.Job(t.Context(), 2)
		if failed.LastError != "failure 1" || !strings.HasPrefix(panicked.LastError, "panic: boom (inline_test.go:") {
			t.Errorf("LastError: got %q and %q, want failure 1 and panic: boom", failed.LastError, panicked.LastError)
		}
		enqueue(t, q.Queue, nil, job("a"))
		q.wantRan(t, "before the back-off is over", "error", "panic", "a")
		time.Sleep(time.Minute)
		q.wantRan(t, "by the time alone", "error", "panic", "a")
		enqueue(t, q.Queue, nil, &queue.Job{Kind: "later", Delay: time.Hour})
		q.wantRan(t, "by the next Enqueue", "error", "panic", "a", "error")
		time.Sleep(time.Hour)
		drain(t, q.Queue, q.handler, 2)
		q.wantRan(t, "by Drain", "error", "panic", "a", "error", "error", "later")
	})
}

// TestInlineChain: a job that enqueues the next one does so in a loop, not in a recursion.
func TestInlineChain(t *testing.T) {
	const links = 10_000
	next := map[string]func(ctx context.Context, q *inline) error{
		"by itself": func(ctx context.Context, q *inline) error { return q.Enqueue(ctx, nil, job("next")) },
		"in a transaction": func(ctx context.Context, q *inline) error {
			tx, err := q.Begin(ctx)
			if err != nil {
				return err
			}
			return errors.Join(q.Enqueue(ctx, tx, job("next")), tx.Commit())
		},
		"in another goroutine": func(ctx context.Context, q *inline) error {
			done := make(chan error)
			go func() { done <- q.Enqueue(ctx, nil, job("next")) }()
			return <-done
		},
	}
	for name, enqueueNext := range next {
		t.Run(name, func(t *testing.T) {
			depth, ran := 0, 0
			q := newInline(func(ctx context.Context, q *inline, j *queue.Job) error {
				if ran++; ran == links {
					return nil
				}
				if d := runtime.Callers(0, make([]uintptr, 1000)); depth == 0 {
					depth = d
				} else if d != depth {
					return queue.Discard(fmt.Errorf("stack of %d frames, at first %d", d, depth))
				}
				return enqueueNext(ctx, q)
			})
			enqueue(t, q.Queue, nil, job("first"))
			if counts, err := q.Counts(t.Context()); err != nil || len(counts) != 1 || counts[0].Jobs != links {
				t.Errorf("counts: got %+v, error %v; want %d completed", counts, err, links)
			}
			if dead, _, _ := q.Jobs(t.Context(), queue.Filter{Status: queue.StatusDead}); len(dead) > 0 {
				t.Error(dead[0].LastError)
			}
		})
	}
}

// TestInlineWithOtherContext: a handler that enqueues with a context of its own has the job run
// within that call.
func TestInlineWithOtherContext(t *testing.T) {
	q := newInline(func(_ context.Context, q *inline, j *queue.Job) error {
		if j.Kind == "inner" {
			return nil
		}
		err := q.Enqueue(context.Background(), nil, job("inner"))
		q.wantRan(t, "within the handler", "outer", "inner")
		return err
	})
	enqueue(t, q.Queue, nil, job("outer"))
	if got, want := statuses(t, q.Queue), "outer completed 1, inner completed 1"; got != want {
		t.Errorf("jobs: got %s, want %s", got, want)
	}
}

// TestInlineLeftBehind: a goroutine that outlives its handler enqueues like any other.
func TestInlineLeftBehind(t *testing.T) {
	returned, enqueued := make(chan struct{}), make(chan error)
	q := newInline(func(ctx context.Context, q *inline, j *queue.Job) error {
		if j.Kind == "first" {
			go func() {
				<-returned
				enqueued <- q.Enqueue(ctx, nil, job("second"))
			}()
		}
		return nil
	})
	enqueue(t, q.Queue, nil, job("first"))
	close(returned)
	if err := <-enqueued; err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	q.wantRan(t, "after that", "first", "second")
}

func TestInlineContext(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "the enqueuer's"))
	q := newInline(func(ctx context.Context, _ *inline, j *queue.Job) error {
		cancel()
		if ctx.Err() != nil || ctx.Value(key{}) != nil {
			t.Errorf("context of %s: got error %v, value %v; want neither", j.Kind, ctx.Err(), ctx.Value(key{}))
		}
		return nil
	})
	if err := q.Enqueue(ctx, nil, job("a"), job("b")); err != nil {
		t.Errorf("Enqueue whose context ended while its jobs ran: %v", err)
	}
	q.wantRan(t, "although it ended", "a", "b")
}

// TestInlineTwoQueues: each job of one enqueues one in the other.
func TestInlineTwoQueues(t *testing.T) {
	var ping, pong *inline
	ping = newInline(func(ctx context.Context, q *inline, j *queue.Job) error {
		if len(q.ran) == 100 {
			return nil
		}
		return pong.Enqueue(ctx, nil, job("pong"))
	})
	pong = newInline(func(ctx context.Context, _ *inline, j *queue.Job) error {
		return ping.Enqueue(ctx, nil, job("ping"))
	})
	enqueue(t, ping.Queue, nil, job("ping"))
	ping.wantRan(t, "in the one", slices.Repeat([]string{"ping"}, 100)...)
	pong.wantRan(t, "in the other", slices.Repeat([]string{"pong"}, 99)...)
}

// TestInlineOfMux: a Mux may get its handlers, which need the queue, after the queue has been made;
// jobs of other kinds are left.
func TestInlineOfMux(t *testing.T) {
	mux := queue.NewMux()
	q := memory.New(memory.Options{Inline: queue.Chain(mux)})
	mux.Handle("known", queue.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
		return q.Enqueue(ctx, nil, job("unknown"))
	}))
	enqueue(t, q, nil, job("unknown"), job("known"))
	if got, want := statuses(t, q), "unknown pending 0, known completed 1, unknown pending 0"; got != want {
		t.Errorf("jobs: got %s, want %s", got, want)
	}
}

// TestInlineConcurrently: every job runs once, and when all have returned all have run.
func TestInlineConcurrently(t *testing.T) {
	const goroutines, each = 8, 100
	q := newInline(func(ctx context.Context, q *inline, j *queue.Job) error {
		if j.Kind == "outer" {
			return q.Enqueue(ctx, nil, job("inner"))
		}
		return nil
	})
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				if err := q.Enqueue(t.Context(), nil, job("outer")); err != nil {
					t.Errorf("Enqueue: %v", err)
				}
			}
		})
	}
	all.Wait()
	counts, err := q.Counts(t.Context())
	if err != nil || len(counts) != 1 || counts[0].Status != queue.StatusCompleted || counts[0].Jobs != 2*goroutines*each {
		t.Errorf("counts: got %+v, error %v; want %d completed", counts, err, 2*goroutines*each)
	}
	if len(q.ran) != 2*goroutines*each {
		t.Errorf("runs: got %d, want %d", len(q.ran), 2*goroutines*each)
	}
}
