package telemetry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// workFor runs a worker for a while.
func (r *rig) workFor(d time.Duration, w engine.Worker) {
	r.Helper()
	w.Name, w.Logger = "w", slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		r.Error(err)
	}
}

// The whole way of a job through a worker.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		ctx, request := r.tracer.Start(t.Context(), "request")
		r.enqueue(ctx, newTask())
		request.End()
		mux := queue.NewMux()
		work.Handle(mux, func(ctx context.Context, job *queue.Job, v task) error {
			_, span := r.tracer.Start(ctx, "send")
			time.Sleep(time.Second)
			span.End()
			return nil
		})
		r.workFor(time.Minute, engine.Worker{Backend: r.queue, Handler: queue.Chain(mux, r.Handler)})

		r.wantNames("enqueue default", "request", "claim default", "send", "process default", "settle default")
		enqueue, claim := r.span("enqueue default"), r.span("claim default")
		process, settle := r.span("process default"), r.span("settle default")
		wantChild(t, process, enqueue)
		wantLinks(t, process, enqueue)
		wantChild(t, r.span("send"), process)
		for _, s := range []tracetest.SpanStub{claim, settle} {
			wantRoot(t, s)
			wantLinks(t, s, enqueue)
			if got := values(s.Links[0].Attributes); !maps.Equal(got, map[string]string{"messaging.message.id": "1"}) {
				t.Errorf("link of %q: got %v, want the job's ID", s.Name, got)
			}
			if s.SpanKind != trace.SpanKindClient {
				t.Errorf("kind of %q: got %v, want client", s.Name, s.SpanKind)
			}
		}
		common := map[string]string{
			"messaging.system": "errand", "messaging.destination.name": "default", "messaging.message.id": "1",
			"messaging.client.id": "w", "errand.job.kind": "test.work",
		}
		common["messaging.operation.name"], common["messaging.operation.type"] = "claim", "receive"
		wantAttrs(t, claim, common)
		common["messaging.operation.name"], common["messaging.operation.type"] = "settle", "settle"
		common["errand.job.outcome"] = "done"
		wantAttrs(t, settle, common)
		r.wantMetric("messaging.client.consumed.messages", "test.work default claim 1")
	})
}

// An idle worker measures its polls and makes no span of them.
func TestIdleWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		h := queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })
		r.workFor(time.Minute, engine.Worker{Backend: r.queue, Handler: r.Handler(h), Queues: []string{"q"}})
		r.wantNames()
		r.wantMetric("messaging.client.consumed.messages")
		r.wantMetric("errand.batch.size")
		if got := r.metric("messaging.client.operation.duration"); len(got) != 1 || !strings.HasPrefix(got[0], "q claim ") {
			t.Errorf("durations: got %q, want those of the claims", got)
		}
	})
}

// A span of many jobs links to the first of them, and says how many they are.
func TestManyLinks(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	r.enqueue(t.Context(), newTasks(200)...)
	jobs := r.claim(300)
	r.settle(jobs...)
	for _, name := range []string{"claim default", "settle default"} {
		s := r.span(name)
		if len(s.Links) != 128 || s.DroppedLinks != 0 || values(s.Attributes)["messaging.batch.message_count"] != "200" {
			t.Errorf("%s: got %d links, %d dropped, attributes %v; want 128, 0 and 200 messages", name, len(s.Links), s.DroppedLinks, values(s.Attributes))
		}
	}
	r.wantMetric("errand.batch.size", "default enqueue 1x200", "default claim 1x200", "default settle 1x200")
}

func (r *rig) claim(limit int, queues ...string) []*queue.Job {
	r.Helper()
	if len(queues) == 0 {
		queues = []string{queue.DefaultQueue}
	}
	jobs, err := r.queue.Claim(r.Context(), queue.ClaimRequest{Queues: queues, Limit: limit, Lease: time.Second, Worker: "w"})
	if err != nil {
		r.Fatal(err)
	}
	return jobs
}

func (r *rig) settle(jobs ...*queue.Job) (lost []*queue.Job) {
	r.Helper()
	outcomes := make([]queue.Outcome, len(jobs))
	for i, job := range jobs {
		outcomes[i] = queue.Outcome{Job: job}
	}
	lost, err := r.queue.Settle(r.Context(), nil, outcomes...)
	if err != nil {
		r.Fatal(err)
	}
	return lost
}

// slow takes a second for each call.
type slow struct{ queue.Queue }

func (s slow) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	time.Sleep(time.Second)
	return s.Queue.Claim(ctx, req)
}

// A span that is made once the call has returned begins when that was made.
func TestTimesOfTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		r.enqueue(t.Context(), newTask())
		r.queue = r.Queue(slow{r.memory})
		r.claim(1)
		s := r.span("claim default")
		if took, ago := s.EndTime.Sub(s.StartTime), time.Since(s.EndTime); took != time.Second || ago != 0 {
			t.Errorf("span: got %v until %v ago, want 1s until now", took, ago)
		}
		r.wantMetric("messaging.client.operation.duration", "default enqueue 1x0", "default claim 1x1")
	})
}

func TestClaimOfSeveralQueues(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	r.enqueue(t.Context(), &queue.Job{Kind: "k", Queue: "a"}, &queue.Job{Kind: "k", Queue: "b"})
	r.claim(9, "a", "b")
	r.claim(9, "a", "b")
	if got := values(r.span("claim").Attributes); got["errand.job.kind"] != "k" || got["messaging.destination.name"] != "" {
		t.Errorf("attributes: got %v, want the kind and no queue", got)
	}
	r.wantMetric("messaging.client.consumed.messages", "k a claim 1", "k b claim 1")
	if got := r.metric("messaging.client.operation.duration"); len(got) != 2 {
		t.Errorf("durations: got %q, want one of enqueue and one of claim", got)
	}
}

// What another has taken shows where it is found.
func TestLostLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		r.enqueue(t.Context(), newTasks(3)...)
		jobs := r.claim(3)
		r.extend(jobs)
		r.wantNames("enqueue default", "claim default")
		time.Sleep(2 * time.Second)
		if _, err := r.memory.Reclaim(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		r.spans.Reset()
		if lost := r.extend(jobs); len(lost) != 2 {
			t.Errorf("lost: got %d, want 2", len(lost))
		}
		if lost := r.settle(jobs...); len(lost) != 2 {
			t.Errorf("lost: got %d, want 2", len(lost))
		}
		r.wantNames("extend default", "settle default")
		if s := r.span("extend default"); len(s.Links) != 2 || values(s.Attributes)["errand.batch.lost"] != "2" {
			t.Errorf("extend: got %d links, %v; want 2 links, and 2 lost", len(s.Links), s.Attributes)
		}
		if s := r.span("settle default"); len(s.Links) != 3 || values(s.Attributes)["errand.batch.lost"] != "2" {
			t.Errorf("settle: got %d links, %v; want 3 links, and 2 lost", len(s.Links), s.Attributes)
		}
		r.wantMetric("errand.lease.lost", "test.work default extend 2", "test.work default settle 2")
	})
}

func (r *rig) extend(jobs []*queue.Job) (lost []*queue.Job) {
	r.Helper()
	lost, _, err := r.queue.Extend(r.Context(), time.Second, jobs...)
	if err != nil {
		r.Fatal(err)
	}
	return lost
}

func TestFailedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		r.enqueue(t.Context(), newTask())
		jobs := r.claim(1)
		r.spans.Reset()
		down := r.Queue(&broken{Queue: r.memory, claim: errDown, extend: errDown, settle: errDown})
		_, errClaim := down.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Second, Worker: "w"})
		_, _, errExtend := down.Extend(t.Context(), time.Second, jobs...)
		_, errSettle := down.Settle(t.Context(), nil, queue.Outcome{Job: jobs[0]})
		for _, err := range []error{errClaim, errExtend, errSettle} {
			if !errors.Is(err, errDown) {
				t.Errorf("error: got %v, want %v", err, errDown)
			}
		}
		r.wantNames("claim q", "extend default", "settle default")
		for _, s := range r.spans.GetSpans() {
			if s.Status.Code != codes.Error || s.Status.Description != errDown.Error() || values(s.Attributes)["error.type"] != "*errors.errorString" {
				t.Errorf("%s: got status %+v, %v; want the error", s.Name, s.Status, s.Attributes)
			}
		}
		r.wantMetric("messaging.client.operation.duration", "default claim 1x0", "default enqueue 1x0",
			"*errors.errorString q claim 1x0", "*errors.errorString default extend 1x0", "*errors.errorString default settle 1x0")
	})
}

// A handler that settles in its own transaction does so within its run, and its job counts as done.
func TestSettleWithinTheRun(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	r.enqueue(t.Context(), newTask())
	r.drain(t.Context(), func(ctx context.Context, job *queue.Job) error {
		if _, err := r.queue.Settle(ctx, nil, queue.Outcome{Job: job}); err != nil {
			t.Error(err)
		}
		return queue.ErrSettled
	})
	wantChild(t, r.span("settle default"), r.span("process default"))
	r.wantMetric("errand.job.outcomes", "test.work done default process 1")
}

func TestCallsOfNone(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	r.extend(nil)
	r.settle()
	r.wantNames()
	r.wantMetric("messaging.client.operation.duration")
}

// What the backend can do besides is found behind the wrapper.
func TestAsFindsTheBackend(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	if _, ok := driver.As[interface {
		driver.Waiter
		driver.Inspector
		driver.Editor
		driver.Reclaimer
		driver.TxClaimer
	}](r.queue); !ok {
		t.Error("a capability of the memory queue is not found")
	}
}
