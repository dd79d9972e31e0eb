package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestFloodOfFailures: of 10,000 failures a second the log has a bounded number of lines, whether
// their errors are alike or not, and with the counts of what was left out they add up exactly.
func TestFloodOfFailures(t *testing.T) {
	extent.Long(t)
	for _, c := range []struct {
		name string
		err  func(job *queue.Job) error
		most int // lines with one message
	}{
		{"one text", func(*queue.Job) error { return errPlain }, 21},
		{"texts with numbers", func(job *queue.Job) error {
			return fmt.Errorf("user %d not found after %v", job.ID, job.CreatedAt)
		}, 51},
		{"as many texts as jobs", func(*queue.Job) error { return fmt.Errorf("user %s not found", letters()) }, 90},
		{"200 texts", func(job *queue.Job) error { return fmt.Errorf("reason %s", strings.Repeat("a", int(job.ID%200))) }, 1100},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 30_000
				q := newQueue(t, n)
				handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
					time.Sleep(time.Millisecond) // 10 handlers: 10,000 jobs a second
					if job.ID%10 == 0 {
						return queue.Discard(c.err(job))
					}
					return c.err(job)
				})
				w := start(t, engine.Worker{Backend: q, Handler: handler})
				time.Sleep(5 * time.Second) // before the first retry
				w.stop()
				w.log.wantCounted(t, n/10, "job is dead")
				w.log.wantCounted(t, n-n/10, "job failed")
				if lines := strings.Count(w.log.String(), "\n"); lines > 2*c.most {
					t.Errorf("lines: got %d, want at most %d for each of two messages", lines, c.most)
				}
			})
		})
	}
}

// letters returns a random text without digits.
func letters() string {
	b := make([]byte, 12)
	for i := range b {
		b[i] = 'a' + byte(rand.IntN(26))
	}
	return string(b)
}

// TestFewFailures: failures that are no flood have a record each, and no summary.
func TestFewFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		q := newQueue(t, n)
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
			time.Sleep(250 * time.Millisecond)
			return queue.Discard(errPlain)
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: 1})
		time.Sleep(n*250*time.Millisecond + time.Second)
		w.stop()
		w.log.wantLogged(t, n, "job is dead")
	})
}

// TestSummaryComesInTime: the count of what was left out is logged within 13 seconds, although
// nothing fails any more.
func TestSummaryComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 100)
		w := start(t, engine.Worker{Backend: q, Handler: returning(queue.Discard(errPlain))})
		time.Sleep(13 * time.Second)
		found := w.log.find(t, "job is dead, similar records left out")
		if len(found) != 1 {
			t.Fatalf("summaries: got %v, want one", found)
		}
		rec := found[0]
		if rec["omitted"] != 95.0 || rec["kind"] != work.Name || rec["error"] != "plain" || rec["level"] != "ERROR" || rec["within"] == nil {
			t.Errorf("summary: got %v, want an error with kind, error, within and 95 omitted", rec)
		}
		w.log.wantCounted(t, 100, "job is dead")
		w.stop()
	})
}

// TestStackOnce: similar panics show their stack once in ten seconds.
func TestStackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 100)
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error { panic(fmt.Sprint("bad job ", job.ID)) })
		w := start(t, engine.Worker{Backend: q, Handler: handler})
		time.Sleep(time.Second)
		w.stop()
		w.log.wantCounted(t, 100, "job failed")
		if stacks := strings.Count(w.log.String(), `"stack":`); stacks != 1 {
			t.Errorf("stacks: got %d, want 1; the log:\n%s", stacks, w.log)
		}
	})
}

// TestStackBesideOthers: a panic's stack is logged, too, if it comes after so many different
// failures that it is counted together with plain ones.
func TestStackBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 53 // 50 are told apart
		q := newQueue(t, n)
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			if job.ID == n {
				panic("bad job")
			}
			return errors.New(strings.Repeat("x", int(job.ID)))
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: 1})
		time.Sleep(time.Second)
		w.stop()
		found := w.log.find(t, "job failed")
		if last := found[len(found)-1]; len(found) != n || last["stack"] == nil {
			t.Errorf("got %d records, the last one %v; want %d, and the stack of the panic in the last", len(found), last, n)
		}
	})
}

// TestLogged: the worker does not log what middleware has logged, unless its outcome has become a
// different one.
func TestLogged(t *testing.T) {
	last := &queue.Job{Kind: "k", MaxAttempts: 1}
	for _, c := range []struct {
		name string
		job  *queue.Job
		err  error
		want int
	}{
		{"retry", newTask(0), queue.Logged(errPlain, queue.Outcome{Action: queue.Retry, Delay: time.Hour}), 0},
		{"dead", newTask(0), fmt.Errorf("wrapped: %w", queue.Logged(queue.Discard(errPlain), queue.Outcome{Action: queue.Dead})), 0},
		{"last attempt", last, queue.Logged(errPlain, queue.Outcome{Action: queue.Dead}), 0},
		{"retry that became dead", newTask(0), queue.Discard(queue.Logged(errPlain, queue.Outcome{Action: queue.Retry})), 1},
		{"retry after a different delay", newTask(0),
			queue.RetryAfter(time.Hour, queue.Logged(errPlain, queue.Outcome{Action: queue.Retry, Delay: time.Minute})), 1},
		{"not the last attempt after all", last, queue.Logged(errPlain, queue.Outcome{Action: queue.Retry}), 1},
		{"not logged", newTask(0), errPlain, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, 0)
			job := *c.job
			enqueue(t, q, &job)
			w := start(t, engine.Worker{Backend: q, Handler: returning(c.err)})
			time.Sleep(time.Second)
			w.stop()
			t.Log(c.name)
			w.log.wantLogged(t, c.want, "")
			wantText(t, record(t, q, &job).LastError, "plain")
		})
	}
	if err := queue.Logged(nil, queue.Outcome{}); err != nil {
		t.Errorf("Logged(nil): got %v, want nil", err)
	}
	if !errors.Is(queue.Logged(errPlain, queue.Outcome{Action: queue.Retry}), errPlain) {
		t.Error("Logged(err): it is not err")
	}
}

// TestFailuresBelowLevel: a logger that does not write a level costs no memory for its counts, and
// gets no summary.
func TestFailuresBelowLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 100)
		log := newLogs(t)
		logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))
		w := start(t, engine.Worker{Backend: q, Handler: returning(errPlain), Logger: logger})
		time.Sleep(time.Minute)
		w.stop()
		log.wantLogged(t, 0, "")
	})
}
