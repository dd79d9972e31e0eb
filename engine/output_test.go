package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestSetOutputMisuse: what cannot be set is an error that names the problem.
func TestSetOutputMisuse(t *testing.T) {
	ctx := queue.WithResults(t.Context())
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"outside":  {queue.SetOutput(t.Context(), 1), "invalid Output: no single job is being handled in this context"},
		"progress": {queue.SetProgress(t.Context(), 1), "invalid Progress: no single job is being handled in this context"},
		"func":     {queue.SetOutput(ctx, func() {}), "unsupported type"},
		"NUL":      {queue.SetOutput(ctx, "\x00"), "invalid Output: "},
		"long":     {queue.SetProgress(ctx, strings.Repeat("x", queue.MaxOutput)), "invalid Progress: 1048578 bytes: at most 1048576"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, c.err, c.want)
		}
	}
	if text := queue.OutputOf(ctx); text != nil {
		t.Errorf("output after errors: got %s, want none", text)
	}
	for _, v := range []any{1, nil} {
		if err := queue.SetOutput(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	inner, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := queue.SetProgress(inner, 0.5); err != nil || string(queue.OutputOf(inner)) != "null" || string(queue.ProgressOf(ctx)) != "0.5" {
		t.Errorf("got output %s and progress %s, error %v; want null and 0.5", queue.OutputOf(inner), queue.ProgressOf(ctx), err)
	}
}

// TestSetOutputInWorker: in OnDead and HandleMany, and with a backend that keeps no results, it is
// an error, and not the output of a wrong job.
func TestSetOutputInWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 2)
		var errs []error
		mux := queue.NewMux()
		work.HandleMany(mux, queue.BatchOptions{}, func(ctx context.Context, jobs []*queue.Job, _ []task) []error {
			errs = append(errs, queue.SetOutput(ctx, 1))
			return []error{nil, queue.Discard(errPlain)}
		})
		w := start(t, engine.Worker{Backend: q, Handler: mux, OnDead: func(ctx context.Context, _ *queue.Job, _ error) {
			errs = append(errs, queue.SetOutput(ctx, 1))
		}})
		time.Sleep(time.Minute)
		w.stop()
		enqueue(t, q, newTask(3))
		w = start(t, engine.Worker{Backend: plain(q), Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			errs = append(errs, queue.SetOutput(ctx, 1))
			return nil
		})})
		time.Sleep(time.Minute)
		w.stop()
		if len(errs) != 3 {
			t.Fatalf("calls: got %d, want 3", len(errs))
		}
		for _, err := range errs {
			var invalid *queue.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "Output" {
				t.Errorf("got error %v, want an InvalidError for Output", err)
			}
		}
		if r, ok, err := q.Result(t.Context(), 1); !ok || err != nil || r.Output != nil {
			t.Errorf("result: got %+v, %v, error %v; want no output", r, ok, err)
		}
	})
}

// progressed counts the calls of KeepProgress.
type progressed struct {
	*queuetest.Queue
	calls []int
}

func (p *progressed) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	p.calls = append(p.calls, len(progress))
	return p.Queue.KeepProgress(ctx, progress...)
}

// refusing fails the first calls of KeepProgress, and notes how many bytes each call has.
type refusing struct {
	*queuetest.Queue
	fails int
	bytes []int
}

func (p *refusing) KeepProgress(ctx context.Context, progress ...queue.Progress) error {
	n := 0
	for _, v := range progress {
		n += len(v.Value)
	}
	if p.bytes = append(p.bytes, n); len(p.bytes) <= p.fails {
		return errors.New("out of order")
	}
	return p.Queue.KeepProgress(ctx, progress...)
}

// TestProgressInParts: much progress at once is recorded in several calls, and what a call could
// not record comes again, although the handlers set nothing newer.
func TestProgressInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, long = 20, 1 << 20
		q := &refusing{Queue: newQueue(t, jobs), fails: 2}
		w := start(t, engine.Worker{Backend: q, Concurrency: jobs, Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			if err := queue.SetProgress(ctx, strings.Repeat("x", long-2)); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Second)
			return nil
		})})
		time.Sleep(5 * time.Second)
		for id := range int64(jobs) {
			if r, _, err := q.Result(t.Context(), id+1); err != nil || len(r.Progress) != long {
				t.Errorf("job %d: progress of %d bytes, error %v; want %d", id+1, len(r.Progress), err, long)
			}
		}
		w.stop()
		if slices.Max(q.bytes) > 8*long || len(q.bytes) != 5 {
			t.Errorf("calls of KeepProgress: got %v bytes, want three calls of 8 MiB at most, and two for what failed", q.bytes)
		}
	})
}

// TestProgressOnceASecond: progress that is set a thousand times a second is recorded once a
// second, the last value each time, and that of all jobs together.
func TestProgressOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &progressed{Queue: newQueue(t, 3)}
		w := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			for i := range 10_000 {
				if err := queue.SetProgress(ctx, i); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		})})
		time.Sleep(5500 * time.Millisecond)
		r, _, err := q.Result(t.Context(), 1)
		if at, convErr := time.ParseDuration(string(r.Progress) + "ms"); err != nil || convErr != nil || at < 4*time.Second {
			t.Errorf("progress after 5.5 s: got %s, errors %v, %v", r.Progress, err, convErr)
		}
		time.Sleep(time.Minute)
		w.stop()
		if n := len(q.calls); n < 9 || n > 12 {
			t.Errorf("calls of KeepProgress in 10 s: got %d (%v)", n, q.calls)
		}
	})
}

// TestAwaitEnds: Await returns the cause of its context's end.
func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errPlain)
		defer cancel()
		if r, err := engine.Await(ctx, q, 1); !errors.Is(err, errPlain) || r.Status != queue.StatusPending {
			t.Errorf("Await of a job that nobody runs: got %+v, error %v", r, err)
		}
		if _, err := engine.Await(t.Context(), plain(q), 1); err == nil {
			t.Errorf("Await of a backend without results: got no error")
		}
	})
}
