package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func TestKindRoundTrip(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	enqueue(t, q, newTask(7))
	mux := queue.NewMux()
	var got task
	work.Handle(mux, func(_ context.Context, _ *queue.Job, v task) error {
		got = v
		return nil
	})
	if ran, err := q.Drain(t.Context(), mux); ran != 1 || err != nil {
		t.Fatalf("Drain: %d, %v", ran, err)
	}
	if want := (task{N: 7, Note: secret}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestKindDefaults(t *testing.T) {
	kind := queue.Kind[int]{Name: "k", Queue: "slow", Priority: 3, MaxAttempts: 9, Timeout: time.Hour}
	job := kind.New(1)
	if job.Kind != "k" || job.Queue != "slow" || job.Priority != 3 || job.MaxAttempts != 9 || string(job.Payload) != "1" {
		t.Errorf("New gives %+v, want the kind's defaults", job)
	}
	job.Queue = "fast" // a job's own fields win
	q := queuetest.New(queuetest.Options{})
	enqueue(t, q, job)
	if r := record(t, q, job); r.Queue != "fast" || r.MaxAttempts != 9 {
		t.Errorf("enqueued in %q with %d attempts, want fast with 9", r.Queue, r.MaxAttempts)
	}
}

// TestKindThatCannotBeMarshalled: New does not fail, Enqueue does, and writes
// nothing of the batch.
func TestKindThatCannotBeMarshalled(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	err := q.Enqueue(t.Context(), nil, newTask(1), queue.NewKind[func()]("bad.kind").New(nil))
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != "Payload" || !strings.Contains(err.Error(), `"bad.kind"`) {
		t.Errorf("Enqueue: %v, want an InvalidError for Payload that names the kind", err)
	}
	wantCount(t, q, queue.StatusPending, 0)
}

// TestPayloadThatDoesNotFit: another attempt would read the same bytes.
func TestPayloadThatDoesNotFit(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	job := &queue.Job{Kind: work.Name, Payload: []byte(`"a string"`)}
	enqueue(t, q, job)
	mux := queue.NewMux()
	work.Handle(mux, func(context.Context, *queue.Job, task) error {
		t.Error("handled")
		return nil
	})
	if _, err := q.Drain(t.Context(), mux); err != nil {
		t.Fatal(err)
	}
	wantJob(t, q, job, queue.StatusDead, 1)
}

// TestMisfitShowsNothing: the error says where the payload does not fit, and nothing
// of what stands there.
func TestMisfitShowsNothing(t *testing.T) {
	job := &queue.Job{Payload: []byte(`{"Card":"` + secret + `"}`)}
	_, when := queue.Kind[struct{ Card time.Time }]{Name: "k"}.Args(job)
	_, number := queue.Kind[struct {
		Card int `json:",string"`
	}]{Name: "k"}.Args(job)
	_, typed := queue.Kind[struct{ Card int }]{Name: "k"}.Args(job)
	for _, err := range []error{when, number, typed} {
		var bad *queue.InvalidError
		if !errors.As(err, &bad) || bad.Field != "Payload" || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want an InvalidError for Payload that does not show it", err)
		}
	}
	wantText(t, typed.Error(), "Card", "int")
}

func TestKindOfNothing(t *testing.T) {
	none := queue.NewKind[*int]("none")
	if v, err := none.Args(&queue.Job{}); v != nil || err != nil {
		t.Errorf("Args of no payload: %v, %v, want nil", v, err)
	}
}

func TestMuxRefusesTwoHandlers(t *testing.T) {
	mux := queue.NewMux()
	nothing := func(context.Context, *queue.Job, task) error { return nil }
	work.Handle(mux, nothing)
	for name, again := range map[string]func(){
		"Kind.Handle": func() { work.Handle(mux, nothing) },
		"Mux.Handle":  func() { mux.Handle(work.Name, queue.HandlerFunc(nil)) },
	} {
		message, _ := panicOf(again).(string)
		if strings.Count(message, "kind_test.go:") != 2 || !strings.Contains(message, work.Name) {
			t.Errorf("%s again: panic %q, want one that names the kind and both places", name, message)
		}
	}
	if message, _ := panicOf(func() { mux.Handle("another", nil) }).(string); !strings.Contains(message, `"another"`) {
		t.Errorf("Handle of nil: panic %q, want one that names the kind", message)
	}
	if _, ok := panicOf(func() { mux.Handle("", queue.HandlerFunc(nil)) }).(*queue.InvalidError); !ok {
		t.Error("Handle of an empty name does not panic with an InvalidError")
	}
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// TestMuxHidden: behind a function the worker cannot see the Mux, claims every
// kind, and gives back those that it has no handler for.
func TestMuxHidden(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	job := &queue.Job{Kind: "of.the.next.version"}
	enqueue(t, q, job)
	mux := queue.NewMux()
	if _, err := q.Drain(t.Context(), queue.HandlerFunc(mux.HandleJob)); err != nil {
		t.Fatal(err)
	}
	wantJob(t, q, job, queue.StatusPending, 0)
	if r := record(t, q, job); time.Until(r.ScheduledAt) < 5*time.Second {
		t.Errorf("due again at %v, want some seconds from now", r.ScheduledAt)
	}
}

func TestChainOrder(t *testing.T) {
	var got []string
	step := func(name string) queue.Middleware {
		return func(next queue.Handler) queue.Handler {
			return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
				got = append(got, name)
				return next.HandleJob(ctx, job)
			})
		}
	}
	mux := queue.NewMux()
	mux.Handle("k", queue.HandlerFunc(func(context.Context, *queue.Job) error {
		got = append(got, "handler")
		return nil
	}))
	h := queue.Chain(queue.Chain(mux, step("c")), step("a"), step("b"))
	if err := h.HandleJob(t.Context(), &queue.Job{Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, " ") != "a b c handler" {
		t.Errorf("ran %v, want a b c handler", got)
	}
	if found, ok := queue.As[*queue.Mux](h); !ok || found != mux {
		t.Error("As does not find the Mux in the chain")
	}
}

// wrapped is a queue in another's clothes.
type wrapped struct{ queue.Queue }

func (w wrapped) Unwrap() queue.Queue { return w.Queue }

func TestAs(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	if _, ok := queue.As[queue.Waiter](wrapped{wrapped{q}}); !ok {
		t.Error("As does not follow Unwrap")
	}
	if _, ok := queue.As[queue.Waiter](plain(q)); ok {
		t.Error("As finds a power that is hidden")
	}
	if _, ok := queue.As[queue.Waiter](nil); ok {
		t.Error("As finds something in nil")
	}
}
