package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// TestKindThatCannotBeMarshalled: Enqueue fails, not New, and writes no job of the batch.
func TestKindThatCannotBeMarshalled(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	err := q.Enqueue(t.Context(), nil, newTask(1), queue.NewKind[func()]("bad.kind").New(nil))
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != "Payload" || !strings.Contains(err.Error(), `"bad.kind"`) {
		t.Errorf("Enqueue: %v, want an InvalidError for Payload that names the kind", err)
	}
	wantCount(t, q, queue.StatusPending, 0)
}

// TestPayloadThatDoesNotFit: in a rolling deploy a worker of the old release may get a job of the
// new one. It fails and is retried, so that a worker of the new release runs it. With
// DiscardMisfits the job is dead at once.
func TestPayloadThatDoesNotFit(t *testing.T) {
	old := func(kind queue.Kind[task], many bool) *queue.Mux {
		mux := queue.NewMux()
		if many {
			kind.HandleMany(mux, queue.BatchOptions{}, func(_ context.Context, jobs []*queue.Job, _ []task) []error {
				t.Errorf("handled %d jobs", len(jobs))
				return nil
			})
			return mux
		}
		kind.Handle(mux, func(context.Context, *queue.Job, task) error {
			t.Error("handled")
			return nil
		})
		return mux
	}
	fresh := queue.NewMux()
	queue.NewKind[string](work.Name).Handle(fresh, func(context.Context, *queue.Job, string) error { return nil })
	strict := queue.Kind[task]{Name: work.Name, DiscardMisfits: true}
	for name, c := range map[string]struct {
		old  *queue.Mux
		want queue.Status
	}{
		"Handle":                     {old(work, false), queue.StatusPending},
		"HandleMany":                 {old(work, true), queue.StatusPending},
		"DiscardMisfits":             {old(strict, false), queue.StatusDead},
		"HandleMany, DiscardMisfits": {old(strict, true), queue.StatusDead},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := queuetest.New(queuetest.Options{})
			job := &queue.Job{Kind: work.Name, Payload: []byte(`"a string"`)}
			enqueue(t, q, job)
			if _, err := q.Drain(t.Context(), c.old); err != nil {
				t.Fatal(err)
			}
			wantJob(t, q, job, c.want, 1)
			if c.want == queue.StatusDead {
				return
			}
			if r := record(t, q, job); time.Until(r.ScheduledAt) < 29*time.Second {
				t.Errorf("%s: due in %v, want the default back-off", name, time.Until(r.ScheduledAt))
			}
			time.Sleep(time.Minute)
			if _, err := q.Drain(t.Context(), fresh); err != nil {
				t.Fatal(err)
			}
			wantJob(t, q, job, queue.StatusCompleted, 2)
		})
	}
}

// TestMisfitShowsNothing: the error says where the payload does not fit, and contains nothing of
// the payload.
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
	_, whole := queue.Kind[int]{Name: "k"}.Args(job)
	if got, want := whole.Error(), `queue: invalid Payload: of kind "k": does not fit int at byte 1`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKindOfNothing(t *testing.T) {
	none := queue.NewKind[*int]("none")
	if v, err := none.Args(&queue.Job{}); v != nil || err != nil {
		t.Errorf("Args of no payload: %v, %v, want nil", v, err)
	}
}

// TestKindMiddleware: a kind's own middleware wraps only its handler, the first outermost. It runs
// before the payload is unmarshalled.
func TestKindMiddleware(t *testing.T) {
	var got []string
	step := func(name string) queue.Middleware {
		return func(next queue.Handler) queue.Handler {
			return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
				got = append(got, name)
				changed := *job
				changed.Payload = json.RawMessage(`7`)
				return next.HandleJob(ctx, &changed)
			})
		}
	}
	var mux queue.Mux // the zero value is an empty Mux
	one, another := queue.NewKind[int]("one"), queue.NewKind[string]("another")
	one.Handle(&mux, func(_ context.Context, _ *queue.Job, v int) error {
		got = append(got, fmt.Sprint(v))
		return nil
	}, step("a"), step("b"))
	another.Handle(&mux, func(_ context.Context, _ *queue.Job, v string) error {
		got = append(got, v)
		return nil
	})
	for _, job := range []*queue.Job{one.New(1), another.New("as it was")} {
		if err := mux.HandleJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a", "b", "7", "as it was"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
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
	if found, ok := queue.MuxOf(h); !ok || found != mux {
		t.Error("MuxOf does not find the Mux in the chain")
	}
}

// TestKindGroupBy: New computes the group from the value, and Enqueue refuses a bad one.
func TestKindGroupBy(t *testing.T) {
	type args struct{ Tenant string }
	kind := queue.Kind[args]{Name: "k", GroupBy: func(a args) string { return a.Tenant }}
	if job := kind.New(args{Tenant: "acme"}); job.Group != "acme" || job.Check(0) != nil {
		t.Errorf("New: got Group %q, Check %v; want acme, nil", job.Group, job.Check(0))
	}
	if err := kind.New(args{Tenant: strings.Repeat("x", 201)}).Check(0); err == nil || !strings.Contains(err.Error(), "Group") {
		t.Errorf("Check of a group of 201 bytes: got %v, want an error that names Group", err)
	}
}
