package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func TestMuxRefusesTwoHandlers(t *testing.T) {
	mux := queue.NewMux()
	nothing := func(context.Context, *queue.Job, task) error { return nil }
	work.Handle(mux, nothing)
	for name, again := range map[string]func(){
		"Kind.Handle": func() { work.Handle(mux, nothing) },
		"Mux.Handle":  func() { mux.Handle(work.Name, queue.HandlerFunc(nil)) },
	} {
		message, _ := panicOf(again).(string)
		if strings.Count(message, "mux_test.go:") != 2 || !strings.Contains(message, work.Name) {
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

// TestMuxHidden: the worker cannot find a Mux behind a function. It claims every kind, and the Mux
// releases jobs of unknown kinds.
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

// byHand wraps a handler in a function, without an Unwrap method.
func byHand(h queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error { return h.HandleJob(ctx, job) })
}

// TestMuxHiddenIsLogged: a worker that cannot find the Mux logs that, once a kind.
func TestMuxHiddenIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 3)
		enqueue(t, q, &queue.Job{Kind: "foreign"}, &queue.Job{Kind: "foreign"}, &queue.Job{Kind: "another"})
		mux := queue.NewMux()
		mux.Handle(work.Name, taking(0))
		w := start(t, engine.Worker{Backend: q, Handler: byHand(mux)})
		time.Sleep(time.Minute)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 3)
		wantCount(t, q, queue.StatusPending, 3)
		w.log.wantLogged(t, 2, "the Mux has no handler for this kind")
	})
}

// TestTimeoutsOfHiddenMux: a kind's Timeout also holds if the worker cannot find its Mux.
func TestTimeoutsOfHiddenMux(t *testing.T) {
	brief := queue.Kind[int]{Name: "brief", Timeout: time.Second}
	long := queue.Kind[int]{Name: "long", Timeout: time.Hour}
	never := queue.Kind[int]{Name: "never", Timeout: -1}
	const usual = time.Minute
	for name, c := range map[string]struct {
		wrap func(mux *queue.Mux) queue.Handler
		want map[string]time.Duration // how long handlers get, of a day
	}{
		"by hand": {func(mux *queue.Mux) queue.Handler { return byHand(mux) },
			map[string]time.Duration{"brief": time.Second, "long": usual, "never": usual}},
		"nested": {func(mux *queue.Mux) queue.Handler {
			outer := queue.NewMux()
			for _, kind := range mux.Kinds() {
				outer.Handle(kind, queue.Chain(mux, byHand))
			}
			return outer
		}, map[string]time.Duration{"brief": time.Second, "long": time.Hour, "never": 24 * time.Hour}},
		"nested by hand": {func(mux *queue.Mux) queue.Handler {
			outer := queue.NewMux()
			for _, kind := range mux.Kinds() {
				outer.Handle(kind, byHand(mux))
			}
			return byHand(outer)
		}, map[string]time.Duration{"brief": time.Second, "long": usual, "never": usual}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queuetest.New(queuetest.Options{})
				enqueue(t, q, brief.New(1), long.New(1), never.New(1))
				var took sync.Map
				fn := func(ctx context.Context, job *queue.Job, _ int) error {
					from := time.Now()
					sleepUntil(ctx, 24*time.Hour)
					took.Store(job.Kind, time.Since(from))
					return nil
				}
				mux := queue.NewMux()
				brief.Handle(mux, fn)
				long.Handle(mux, fn)
				never.Handle(mux, fn)
				w := start(t, engine.Worker{Backend: q, Handler: c.wrap(mux), Timeout: usual})
				time.Sleep(25 * time.Hour)
				w.stop()
				for kind, want := range c.want {
					if got, _ := took.Load(kind); got != want {
						t.Errorf("%s: ran for %v, want %v", kind, got, want)
					}
				}
			})
		})
	}
}

// sleepUntil sleeps for d, or until ctx ends.
func sleepUntil(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// TestUnservedQueues: the workers of one Mux warn once of each queue that a kind names and none of
// them serves. They know nothing of the queues that jobs name themselves, and of handlers without a
// Kind.
func TestUnservedQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		fn := func(context.Context, *queue.Job, int) error { return nil }
		many := func(_ context.Context, jobs []*queue.Job, _ []int) []error { return make([]error, len(jobs)) }
		inner, mux := queue.NewMux(), queue.NewMux()
		queue.Kind[int]{Name: "b", Queue: "slow"}.Handle(inner, fn)
		mux.Handle("b", queue.Chain(inner))
		queue.Kind[int]{Name: "a", Queue: "slow"}.Handle(mux, fn)
		queue.Kind[int]{Name: "c", Queue: "bulk"}.HandleMany(mux, queue.BatchOptions{}, many)
		queue.Kind[int]{Name: "served", Queue: "fast"}.Handle(mux, fn)
		queue.NewKind[int]("anywhere").Handle(mux, fn)
		mux.Handle("other", taking(0))

		const msg = "whose jobs go to a queue that no worker of it serves in this process"
		one := start(t, engine.Worker{Backend: q, Handler: queue.Chain(mux), Queues: []string{"default", "fast"}})
		time.Sleep(20 * time.Second)
		two := start(t, engine.Worker{Backend: q, Handler: mux, Queues: []string{"bulk"}})
		time.Sleep(time.Hour)
		found := append(one.log.find(t, msg), two.log.find(t, msg)...)
		if len(found) != 1 || fmt.Sprintf("%v %v %v", found[0]["level"], found[0]["queue"], found[0]["kinds"]) != "WARN slow [a b]" {
			t.Errorf("got %v, want one warning of the queue slow with the kinds a and b", found)
		}
		two.stop()
		three := start(t, engine.Worker{Backend: q, Handler: mux, Queues: []string{"slow"}})
		time.Sleep(time.Hour)
		three.log.wantLogged(t, 1, msg) // bulk has no worker any more
		one.stop()
		three.stop()
		all := start(t, engine.Worker{Backend: q, Handler: mux, Queues: []string{"slow", "fast", "bulk"}})
		time.Sleep(time.Hour)
		all.stop()
		all.log.wantLogged(t, 0, msg)
	})
}

// TestZeroMux: like http.ServeMux, the zero value is an empty Mux.
func TestZeroMux(t *testing.T) {
	var mux queue.Mux
	if kinds := mux.Kinds(); len(kinds) != 0 {
		t.Errorf("Kinds: %q, want none", kinds)
	}
	if action, _ := queue.ActionOf(mux.HandleJob(t.Context(), newTask(1))); action != queue.Release {
		t.Errorf("a job of an unknown kind: %v, want release", action)
	}
	mux.Handle(work.Name, taking(0))
	if err := mux.HandleJob(t.Context(), newTask(1)); err != nil {
		t.Error(err)
	}
}
