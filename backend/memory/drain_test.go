package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
)

// drain drains and checks how many runs there were.
func drain(t *testing.T, q *memory.Queue, h queue.Handler, want int) {
	t.Helper()
	if ran, err := q.Drain(t.Context(), h); err != nil || ran != want {
		t.Fatalf("Drain: got %d runs, error %v; want %d", ran, err, want)
	}
}

// statuses shows all jobs, in the order of insertion.
func statuses(t *testing.T, q *memory.Queue) string {
	t.Helper()
	records, _, err := q.Jobs(t.Context(), queue.Filter{})
	if err != nil {
		t.Fatalf("Jobs: %v", err)
	}
	var all []string
	for _, r := range slices.Backward(records) {
		all = append(all, fmt.Sprint(r.Kind, " ", r.Status, " ", r.Attempt))
	}
	return strings.Join(all, ", ")
}

// TestDrainLeavesPaused: Drain leaves paused kinds, queues and groups, also of ordered jobs.
func TestDrainLeavesPaused(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		q := memory.New(memory.Options{})
		mux := queue.NewMux()
		for _, kind := range []string{"k", "l"} {
			mux.Handle(kind, queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
		}
		pause := func(paused bool) {
			for _, target := range []queue.Target{{Kind: "l"}, {Queue: "p"}, {Group: "a", InQueue: "q"}} {
				if _, err := q.Pause(t.Context(), nil, target, paused); err != nil {
					t.Fatal(err)
				}
			}
		}
		pause(true)
		enqueue(t, q, nil, &queue.Job{Kind: "k", Queue: "p", Group: "a", Ordered: ordered},
			&queue.Job{Kind: "k", Queue: "q", Group: "a", Ordered: ordered}, &queue.Job{Kind: "l", Queue: "q", Group: "b", Ordered: ordered},
			&queue.Job{Kind: "k", Queue: "q", Group: "c", Ordered: ordered})
		drain(t, q, mux, 1)
		pause(false)
		drain(t, q, mux, 3)
	}
}

func TestDrainRunsWhatHandlersEnqueue(t *testing.T) {
	q := memory.New(memory.Options{})
	enqueue(t, q, nil, &queue.Job{Kind: "b", Queue: "z"}, &queue.Job{Kind: "c", Priority: 1}, &queue.Job{Kind: "a", Queue: "y", Priority: -1})
	var order []string
	drain(t, q, queue.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
		order = append(order, j.Kind)
		if len(j.Kind) > 2 {
			return nil
		}
		return q.Enqueue(ctx, nil, &queue.Job{Kind: j.Kind + "'", Priority: j.Priority})
	}), 9)
	if got, want := strings.Join(order, " "), "a a' a'' b b' b'' c c' c''"; got != want {
		t.Errorf("order of runs: got %s, want %s", got, want)
	}
}

func TestDrainSettles(t *testing.T) {
	q := memory.New(memory.Options{})
	for _, kind := range []string{"nil", "error", "last", "panic", "discard", "snooze", "now", "settled"} {
		j := job(kind)
		if kind == "last" {
			j.MaxAttempts = 1
		}
		enqueue(t, q, nil, j)
	}
	drain(t, q, queue.HandlerFunc(func(ctx context.Context, j *queue.Job) error {
		switch j.Kind {
		case "error", "last":
			return errors.New("boom")
		case "panic":
			panic(errors.New("boom"))
		case "discard":
			return queue.Discard(errors.New("boom"))
		case "snooze":
			return fmt.Errorf("wrapped: %w", queue.Snooze(time.Hour))
		case "now":
			return queue.RetryAfter(0, errors.New("boom"))
		case "settled":
			return settleItself(ctx, q, j)
		}
		return nil
	}), 8+queue.DefaultMaxAttempts)
	want := "nil completed 1, error pending 1, last dead 1, panic pending 1, discard dead 1, " +
		"snooze pending 0, now dead 5, settled completed 1, next completed 1"
	if got := statuses(t, q); got != want {
		t.Errorf("jobs after Drain:\n got %s\nwant %s", got, want)
	}
	panicked, _, _ := q.Jobs(t.Context(), queue.Filter{Kind: "panic"})
	if text := panicked[0].LastError; !strings.HasPrefix(text, "panic: boom (drain_test.go:") {
		t.Errorf("LastError after a panic: got %q, want panic: boom and the line in drain_test.go", text)
	}
}

// settleItself completes the job in the transaction that enqueues the next.
func settleItself(ctx context.Context, q *memory.Queue, j *queue.Job) error {
	tx, err := q.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := q.Enqueue(ctx, tx, job("next")); err != nil {
		return err
	}
	if _, err := q.Settle(ctx, tx, queue.Outcome{Job: j, Action: queue.Done}); err != nil {
		return err
	}
	return errors.Join(tx.Commit(), queue.ErrSettled)
}

func TestDrainOfMux(t *testing.T) {
	q := memory.New(memory.Options{})
	enqueue(t, q, nil, job("known"), job("unknown"))
	mux := queue.NewMux()
	drain(t, q, mux, 0)
	mux.Handle("known", queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
	log := func(next queue.Handler) queue.Handler { return next }
	drain(t, q, queue.Chain(mux, log), 1)
	if got, want := statuses(t, q), "known completed 1, unknown pending 0"; got != want {
		t.Errorf("jobs after Drain: got %s, want %s", got, want)
	}
}

// TestDrainOverDays: back-off, and the lease of a worker that crashed, are over when the bubble's
// time says so.
func TestDrainOverDays(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		enqueue(t, q, nil, job("k"))
		claim(t, q, 1, 1) // and the worker crashes
		fail := queue.HandlerFunc(func(context.Context, *queue.Job) error { return errors.New("boom") })
		drain(t, q, fail, 0)
		time.Sleep(24 * time.Hour)
		drain(t, q, fail, 1)
		time.Sleep(59 * time.Second) // back-off after the second attempt: 60 s and more
		drain(t, q, fail, 0)
		for range 3 {
			time.Sleep(time.Hour)
			drain(t, q, fail, 1)
		}
		if got, want := statuses(t, q), "k dead 5"; got != want {
			t.Errorf("job after five attempts: got %s, want %s", got, want)
		}
	})
}

func TestDrainCancelled(t *testing.T) {
	q := memory.New(memory.Options{})
	enqueue(t, q, nil, job("k"), job("k"))
	ctx, cancel := context.WithCancel(t.Context())
	ran, err := q.Drain(ctx, queue.HandlerFunc(func(context.Context, *queue.Job) error {
		cancel()
		return nil
	}))
	if ran != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("Drain cancelled in the first of two runs: got %d runs, error %v; want 1, context.Canceled", ran, err)
	}
	if got, want := statuses(t, q), "k completed 1, k pending 0"; got != want {
		t.Errorf("jobs after that: got %s, want %s", got, want)
	}
}
