package telemetry_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func TestEnqueueOfOne(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	ctx, request := r.tracer.Start(t.Context(), "request")
	r.enqueue(ctx, newTask())
	request.End()

	s := r.span("enqueue default")
	wantChild(t, s, r.span("request"))
	wantLinks(t, s)
	if s.SpanKind != trace.SpanKindProducer || s.Status.Code != codes.Unset {
		t.Errorf("span: got kind %v and status %v, want producer and unset", s.SpanKind, s.Status.Code)
	}
	wantAttrs(t, s, map[string]string{
		"messaging.system": "errand", "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
		"messaging.destination.name": "default", "messaging.message.id": "1", "errand.job.kind": "test.work",
	})
	if got, want := r.storedTrace(1), s.SpanContext.SpanID().String(); !strings.Contains(got, want) {
		t.Errorf("traceparent of the stored job: got %q, want span %s", got, want)
	}
}

// storedTrace returns the traceparent of a job in the queue.
func (r *rig) storedTrace(id int64) string {
	r.Helper()
	rec, ok, err := r.memory.Job(r.Context(), id)
	if err != nil || !ok {
		r.Fatalf("job %d: found %v, error %v", id, ok, err)
	}
	return rec.Headers["traceparent"]
}

func TestEnqueueOfSeveral(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	jobs := []*queue.Job{newTask(), {Kind: "other", Queue: "slow"}, {Kind: "other", Queue: "slow"}}
	r.enqueue(t.Context(), jobs...)

	s := r.span("enqueue")
	wantAttrs(t, s, map[string]string{
		"messaging.system": "errand", "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
		"messaging.batch.message_count": "3",
	})
	for _, job := range jobs {
		if got, want := r.storedTrace(job.ID), s.SpanContext.SpanID().String(); !strings.Contains(got, want) {
			t.Errorf("traceparent of job %d: got %q, want span %s", job.ID, got, want)
		}
	}
	r.wantMetric("messaging.client.sent.messages", "other slow enqueue 2", "test.work default enqueue 1")
	r.wantMetric("errand.batch.size", "enqueue 1x3")
}

func TestEnqueueLeavesTheCallersJobs(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	headers := map[string]string{"tenant": "a"}
	first, second := work.New(task{}), work.New(task{})
	first.Headers, first.Key, second.Key = headers, "k", "k"
	want := *first
	r.enqueue(t.Context(), first, second)

	if !maps.Equal(first.Headers, map[string]string{"tenant": "a"}) || second.Headers != nil {
		t.Errorf("headers: got %v and %v, want them as they were", first.Headers, second.Headers)
	}
	if first.ID != 1 || first.Duplicate || second.ID != 1 || !second.Duplicate {
		t.Errorf("filled in: got %d, %v and %d, %v; want 1, false and 1, true", first.ID, first.Duplicate, second.ID, second.Duplicate)
	}
	if first.Kind != want.Kind || first.Queue != want.Queue || string(first.Payload) != string(want.Payload) || first.Key != want.Key {
		t.Errorf("job: got %+v, want %+v but for its ID", first, want)
	}
	if got := values(r.span("enqueue default").Attributes)["errand.batch.duplicates"]; got != "1" {
		t.Errorf("errand.batch.duplicates: got %q, want 1", got)
	}
	r.wantMetric("messaging.client.sent.messages", "test.work default enqueue 1") // not the duplicate
}

// Baggage that leaves no room in the headers is left out, and the job is enqueued.
func TestEnqueueWithMuchBaggage(t *testing.T) {
	for _, c := range []struct {
		name           string
		own            int // bytes of the job's own header
		trace, baggage bool
	}{
		{"room for all", 1000, true, true},
		{"no room for baggage", 60_000, true, false},
		{"no room for anything", queue.MaxHeaders - 10, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, telemetry.Options{Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})})
			ctx, span := r.tracer.Start(baggageOf(t, 8000), "request")
			defer span.End()
			job := newTask()
			job.Headers = map[string]string{"own": strings.Repeat("x", c.own)}
			r.enqueue(ctx, job)
			got := r.claim(1)[0].Headers
			if len(got["own"]) != c.own || (got["traceparent"] != "") != c.trace || (got["baggage"] != "") != c.baggage {
				t.Errorf("own header of %d bytes, traceparent %q, baggage of %d bytes; want %d, %v, %v",
					len(got["own"]), got["traceparent"], len(got["baggage"]), c.own, c.trace, c.baggage)
			}
		})
	}
}

// baggageOf returns a context with a baggage of so many bytes.
func baggageOf(t *testing.T, n int) context.Context {
	t.Helper()
	member, err := baggage.NewMember("m", strings.Repeat("b", n))
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	return baggage.ContextWithBaggage(t.Context(), bag)
}

// A job that has come from elsewhere with its creation context keeps that.
func TestEnqueueForwards(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	const parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	forwarded := newTask()
	forwarded.Headers["traceparent"] = parent
	r.enqueue(t.Context(), forwarded)
	r.enqueue(t.Context(), forwarded, newTask())

	for _, s := range r.named("enqueue default") {
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID().String() != "0123456789abcdef" {
			t.Errorf("links: got %v, want the job's own context", s.Links)
		}
	}
	if alone, beside := r.named("enqueue default")[0], r.named("enqueue default")[1]; alone.SpanKind != trace.SpanKindClient || beside.SpanKind != trace.SpanKindProducer {
		t.Errorf("kinds: got %v alone and %v beside another, want client and producer", alone.SpanKind, beside.SpanKind)
	}
	if got := r.storedTrace(1); got != parent {
		t.Errorf("traceparent of the forwarded job: got %q, want %q", got, parent)
	}
	if got := r.storedTrace(3); got == parent || got == "" {
		t.Errorf("traceparent of the job beside it: got %q, want the span's", got)
	}
}

// Nothing of another trace's state is added to it.
func TestEnqueueForwardsAlone(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, TraceState: state,
	}))
	forwarded, own := newTask(), newTask()
	forwarded.Headers["traceparent"] = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	r.enqueue(ctx, forwarded, own)
	for _, job := range r.claim(2) {
		want := ""
		if job.ID == own.ID {
			want = "vendor=1"
		}
		if got := job.Headers["tracestate"]; got != want {
			t.Errorf("tracestate of job %d: got %q, want %q", job.ID, got, want)
		}
	}
}

// What is bad is the backend's to refuse, and leaves no trace of what it was.
func TestEnqueueRefused(t *testing.T) {
	unmarshallable := queue.NewKind[func()]("bad").New(nil)
	for name, job := range map[string]*queue.Job{
		"nil":     nil,
		"payload": unmarshallable,
		"kind":    {Kind: secret + "\xff"},
		"long":    {Kind: "k", Queue: strings.Repeat(secret, 100)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, telemetry.Options{})
			want := r.memory.Enqueue(t.Context(), nil, job)
			got := r.queue.Enqueue(t.Context(), nil, job)
			if want == nil || got == nil || got.Error() != want.Error() {
				t.Errorf("error: got %v, want %v", got, want)
			}
			s := r.spans.GetSpans()[0]
			if s.Status.Code != codes.Error || values(s.Attributes)["error.type"] != "*queue.InvalidError" {
				t.Errorf("span: got status %v and %v, want an error, *queue.InvalidError", s.Status, s.Attributes)
			}
			r.wantMetric("messaging.client.sent.messages")
		})
	}
}

func TestEnqueueFails(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	q := r.Queue(&broken{Queue: r.memory, enqueue: errDown})
	if err := q.Enqueue(t.Context(), nil, newTask()); !errors.Is(err, errDown) {
		t.Errorf("error: got %v, want %v", err, errDown)
	}
	s := r.span("enqueue default")
	if s.Status.Code != codes.Error || s.Status.Description != errDown.Error() {
		t.Errorf("status: got %+v, want the error's", s.Status)
	}
	r.wantMetric("messaging.client.sent.messages", "test.work *errors.errorString default enqueue 1")
}

// The span is there whether the transaction commits or not; the job is not.
func TestEnqueueRolledBack(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	tx, err := r.memory.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.queue.Enqueue(t.Context(), tx, newTask()); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	r.drain(t.Context(), func(context.Context, *queue.Job) error {
		t.Error("the job runs")
		return nil
	})
	r.wantNames("enqueue default")
	r.wantMetric("messaging.client.sent.messages", "test.work default enqueue 1")
}

func TestEnqueueOfNone(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	r.enqueue(t.Context())
	r.wantNames()
}

func TestEnqueuerAlone(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	q := queue.ChainEnqueuer(r.memory, r.Enqueuer)
	if err := q.Enqueue(t.Context(), nil, newTask()); err != nil {
		t.Fatal(err)
	}
	r.wantNames("enqueue default")
	if got, ok := driver.As[driver.Inspector](r.Enqueuer(r.memory)); !ok || got != driver.Inspector(r.memory) {
		t.Errorf("Inspector behind the enqueuer: got %v, %v, want the backend", got, ok)
	}
}
