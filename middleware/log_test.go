package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelInfo, // LevelDebug shows the starts, too
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "took" {
				return slog.Attr{} // another one each time
			}
			return a
		},
	}))
	handler := queue.Chain(
		queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			if job.Attempt == 1 {
				return queue.RetryAfter(time.Minute, errors.New("mail server is busy"))
			}
			return nil
		}),
		middleware.Log(logger),
	)
	for attempt := 1; attempt <= 2; attempt++ {
		job := &queue.Job{ID: 42, Kind: "email.welcome", Queue: "default", Worker: "mail-1", Attempt: attempt, MaxAttempts: 5}
		_ = handler.HandleJob(context.Background(), job)
	}
	// Output:
	// level=WARN msg="errand: job failed" worker=mail-1 job=42 kind=email.welcome queue=default attempt=1 error="mail server is busy" retry_in=1m0s
	// level=INFO msg="errand: job done" worker=mail-1 job=42 kind=email.welcome queue=default attempt=2
}

// basicLog keeps records as JSON lines.
func basicLog(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	text := &bytes.Buffer{}
	return slog.New(slog.NewJSONHandler(text, &slog.HandlerOptions{Level: level})), text
}

// basicRecords are the log's records, without their time.
func basicRecords(t *testing.T, text *bytes.Buffer) (records []map[string]any) {
	t.Helper()
	if strings.Contains(text.String(), basicSecret) {
		t.Errorf("the log shows what it must not:\n%s", text)
	}
	for line := range strings.Lines(text.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		delete(record, slog.TimeKey)
		records = append(records, record)
	}
	return records
}

// basicRecord is a record about basicJob(1), with further attributes.
func basicRecord(level, msg string, further map[string]any) map[string]any {
	record := map[string]any{"level": level, "msg": "errand: " + msg, "worker": "", "job": 7.0, "kind": "mail", "queue": "slow", "attempt": 1.0}
	maps.Copy(record, further)
	return record
}

// TestLog: one record when a job starts and one when it has ended.
func TestLog(t *testing.T) {
	const took = float64(3 * time.Second)
	const backoff = -1.0 // stands for the default back-off, which is random
	type attrs = map[string]any
	for _, c := range []struct {
		name  string
		cause error // of the context's end
		err   error
		want  map[string]any
	}{
		{"done", nil, nil, basicRecord("INFO", "job done", attrs{"took": took})},
		{"settled", nil, basicWrap(queue.ErrSettled), basicRecord("INFO", "job done, in its own transaction", attrs{"took": took})},
		{"snoozed", nil, queue.Snooze(time.Hour), basicRecord("INFO", "job released",
			attrs{"took": took, "error": "queue: snoozed for 1h0m0s", "due_in": float64(time.Hour)})},
		{"released", queue.ErrShutdown, context.Canceled, basicRecord("INFO", "job released",
			attrs{"took": took, "error": "context canceled", "due_in": 0.0})},
		{"cancelled", queue.ErrCancelled, context.Canceled, basicRecord("INFO", "job cancelled",
			attrs{"took": took, "error": "context canceled"})},
		{"failed", nil, errBasic, basicRecord("WARN", "job failed", attrs{"took": took, "error": "basic failure", "retry_in": backoff})},
		{"failed, with a delay", nil, queue.RetryAfter(time.Minute, errBasic), basicRecord("WARN", "job failed",
			attrs{"took": took, "error": "basic failure", "retry_in": float64(time.Minute)})},
		{"dead", nil, queue.Discard(errBasic), basicRecord("ERROR", "job is dead", attrs{"took": took, "error": "basic failure"})},
		{"an error without a text", nil, &basicMute{}, basicRecord("WARN", "job failed",
			attrs{"took": took, "error": "*middleware_test.basicMute: its Error method panicked", "retry_in": backoff})},
	} {
		synctest.Test(t, func(t *testing.T) {
			logger, text := basicLog(slog.LevelDebug)
			ctx := t.Context()
			if c.cause != nil {
				ctx = basicEnded(t, c.cause)
			}
			var cause error
			err := middleware.Log(logger)(basicSlow(3*time.Second, c.err, &cause)).HandleJob(ctx, basicJob(1))
			before, okBefore := queue.OutcomeOf(ctx, basicJob(10), c.err)
			after, okAfter := queue.OutcomeOf(ctx, basicJob(10), err)
			if after.Action != before.Action || okAfter != okBefore || queue.ErrorText(after.Err) != queue.ErrorText(before.Err) {
				t.Errorf("%s: got %v, want the outcome of %v", c.name, err, c.err)
			}
			records := basicRecords(t, text)
			if in, ok := records[len(records)-1]["retry_in"].(float64); ok {
				if settled, _ := queue.OutcomeOf(ctx, basicJob(1), err); settled.Delay != time.Duration(in) || in <= 0 {
					t.Errorf("%s: retry_in %v, but the job is retried after %v", c.name, time.Duration(in), settled.Delay)
				}
				if c.want["retry_in"] == backoff {
					records[len(records)-1]["retry_in"] = backoff
				}
			}
			if len(records) != 2 || !maps.Equal(records[0], basicRecord("DEBUG", "job started", nil)) || !maps.Equal(records[1], c.want) {
				t.Errorf("%s: got %v, want a start and %v", c.name, records, c.want)
			}
		})
	}
}

// TestLogLastAttempt: what MaxAttempts makes of an error shows.
func TestLogLastAttempt(t *testing.T) {
	logger, text := basicLog(slog.LevelInfo)
	err := queue.RetryAfter(time.Minute, errBasic)
	_ = middleware.Log(logger)(basicReturns(err)).HandleJob(t.Context(), basicJob(10))
	records := basicRecords(t, text)
	if len(records) != 1 || records[0]["level"] != "ERROR" || records[0]["retry_in"] != nil {
		t.Errorf("got %v, want one error without a delay", records)
	}
}

// TestLogPanic: a panic becomes an error, and is logged with its place and its stack.
func TestLogPanic(t *testing.T) {
	logger, text := basicLog(slog.LevelInfo)
	err := middleware.Log(logger)(basicPanics(errBasic)).HandleJob(t.Context(), basicJob(1))
	if p, ok := errors.AsType[*queue.PanicError](err); !ok || p.Value != any(errBasic) {
		t.Errorf("got %v, want the panic as an error", err)
	}
	records := basicRecords(t, text)
	if len(records) != 1 || records[0]["level"] != "WARN" || records[0]["msg"] != "errand: job failed" || records[0]["took"] == nil {
		t.Fatalf("got %v, want one failure", records)
	}
	if got := records[0]["error"].(string); !strings.HasPrefix(got, "panic: basic failure (recover_test.go:") {
		t.Errorf("error: got %q, want the panic and its place", got)
	}
	if stack, _ := records[0]["stack"].(string); !strings.Contains(stack, "basicPanics") {
		t.Errorf("stack: got %q, want the handler's", stack)
	}
}

// TestLogGoexit: Log does not keep a goroutine from ending.
func TestLogGoexit(t *testing.T) {
	logger, text := basicLog(slog.LevelInfo)
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		h := middleware.Log(logger)(queue.HandlerFunc(func(context.Context, *queue.Job) error {
			runtime.Goexit()
			return nil
		}))
		_ = h.HandleJob(context.Background(), basicJob(1))
		returned = true
	}()
	<-done
	if records := basicRecords(t, text); returned || len(records) > 0 {
		t.Errorf("returned %v after runtime.Goexit, with %v; want neither", returned, records)
	}
}

// TestLogOnce: each failure is logged once, by Log or by the worker, whatever becomes of it outside
// of Log. Both write to one log here.
func TestLogOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := basicLog(slog.LevelInfo)
		q := queuetest.New(queuetest.Options{})
		mux := queue.NewMux()
		for kind, h := range map[string]queue.Handler{
			"plain": basicReturns(errBasic), "dead": basicReturns(queue.Discard(errBasic)), "panic": basicPanics("boom"), "mute": basicReturns(&basicMute{}),
			"exit": queue.HandlerFunc(func(context.Context, *queue.Job) error { runtime.Goexit(); return nil }),
		} {
			mux.Handle(kind, h)
			if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
		made := func(next queue.Handler) queue.Handler { // makes the job dead, and Log does not know
			return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error { return queue.Discard(next.HandleJob(ctx, job)) })
		}
		mux.Handle("changed", queue.Chain(basicReturns(errBasic), made, middleware.Log(logger)))
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "changed", Queue: "changed"}); err != nil {
			t.Fatal(err)
		}
		work := func(w engine.Worker) {
			ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer stop()
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		}
		work(engine.Worker{Backend: q, Logger: logger, Handler: queue.Chain(mux, middleware.Log(logger))})
		once := make(map[any]int)
		for _, rec := range basicRecords(t, text) {
			once[rec["kind"]]++
		}
		if want := map[any]int{"plain": 1, "dead": 1, "panic": 1, "mute": 1, "exit": 1}; !maps.Equal(once, want) {
			t.Errorf("records: got %v, want %v; the log:\n%s", once, want, text)
		}
		text.Reset()
		work(engine.Worker{Backend: q, Logger: logger, Handler: mux, Queues: []string{"changed"}})
		records := basicRecords(t, text)
		if len(records) != 2 || records[0]["msg"] != "errand: job failed" || records[1]["msg"] != "errand: job is dead" {
			t.Errorf("a failure that became a death outside of Log: got %v, want both", records)
		}
	})
}

// TestLogDefault: nil is slog's default at the time of the call.
func TestLogDefault(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	h := middleware.Log(nil)(basicReturns(nil))
	logger, text := basicLog(slog.LevelInfo)
	slog.SetDefault(logger)
	_ = h.HandleJob(t.Context(), basicJob(1))
	if records := basicRecords(t, text); len(records) != 1 {
		t.Errorf("got %v, want one record", records)
	}
}

type basicTraceKey struct{}

// basicTracing adds to records what it finds in the context.
type basicTracing struct{ slog.Handler }

func (h basicTracing) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Any("trace", ctx.Value(basicTraceKey{})))
	return h.Handler.Handle(ctx, r)
}

// TestLogContext: records carry what the logger's handler finds in the context.
func TestLogContext(t *testing.T) {
	logger, text := basicLog(slog.LevelDebug)
	ctx := context.WithValue(t.Context(), basicTraceKey{}, "t1")
	_ = middleware.Log(slog.New(basicTracing{logger.Handler()}))(basicReturns(nil)).HandleJob(ctx, basicJob(1))
	for _, record := range basicRecords(t, text) {
		if record["trace"] != "t1" {
			t.Errorf("got %v, want the context's trace", record)
		}
	}
}
