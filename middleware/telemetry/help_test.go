package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// task is what the jobs of these tests carry.
type task struct{ Note string }

// secret is the marker that must be in nothing that is exported.
const secret = "s3cr3t"

var work = queue.NewKind[task]("test.work")

// newTask is a job with the marker wherever an application may put something of its own.
func newTask() *queue.Job {
	job := work.New(task{Note: secret})
	job.Headers = map[string]string{"tenant": secret}
	return job
}

func newTasks(n int) []*queue.Job {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = newTask()
	}
	return jobs
}

// rig is a memory queue with telemetry, and what that exports.
type rig struct {
	*testing.T
	*telemetry.Telemetry
	provider trace.TracerProvider
	tracer   trace.Tracer // the application's
	spans    *tracetest.InMemoryExporter
	metrics  *sdkmetric.ManualReader
	memory   *queuetest.Queue
	queue    queue.Queue // memory, instrumented
}

// newRig fills in the providers and the propagator.
func newRig(t *testing.T, opts telemetry.Options) *rig {
	t.Helper()
	r := &rig{T: t, spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader(), memory: queuetest.New(queuetest.Options{})}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
	opts.TracerProvider = tp
	opts.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.metrics))
	if opts.Propagator == nil {
		opts.Propagator = propagation.TraceContext{}
	}
	tel, err := telemetry.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Telemetry, r.provider, r.tracer, r.queue = tel, tp, tp.Tracer("application"), tel.Queue(r.memory)
	t.Cleanup(func() { r.wantNo(secret) })
	return r
}

func (r *rig) enqueue(ctx context.Context, jobs ...*queue.Job) {
	r.Helper()
	if err := r.queue.Enqueue(ctx, nil, jobs...); err != nil {
		r.Fatal(err)
	}
}

// drain runs what is due with h, instrumented.
func (r *rig) drain(ctx context.Context, h queue.HandlerFunc) {
	r.Helper()
	if _, err := r.memory.Drain(ctx, queue.Chain(h, r.Handler)); err != nil {
		r.Fatal(err)
	}
}

// named returns the spans of that name that have ended, in that order.
func (r *rig) named(name string) (found []tracetest.SpanStub) {
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// span returns the one span of that name.
func (r *rig) span(name string) tracetest.SpanStub {
	r.Helper()
	found := r.named(name)
	if len(found) != 1 {
		r.Fatalf("spans %q: got %d, want 1; there are %q", name, len(found), r.names())
	}
	return found[0]
}

func (r *rig) names() (names []string) {
	for _, s := range r.spans.GetSpans() {
		names = append(names, s.Name)
	}
	return names
}

// wantNames compares which spans have ended, in that order.
func (r *rig) wantNames(want ...string) {
	r.Helper()
	if got := r.names(); !slices.Equal(got, want) {
		r.Errorf("spans: got %q, want %q", got, want)
	}
}

// wantAttrs compares all attributes of a span.
func wantAttrs(t *testing.T, s tracetest.SpanStub, want map[string]string) {
	t.Helper()
	if got := values(s.Attributes); !maps.Equal(got, want) {
		t.Errorf("attributes of %q:\n got %v\nwant %v", s.Name, got, want)
	}
}

func values(attrs []attribute.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, kv := range attrs {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// wantLinks compares what a span links to.
func wantLinks(t *testing.T, s tracetest.SpanStub, want ...tracetest.SpanStub) {
	t.Helper()
	var got, ids []trace.SpanID
	for _, l := range s.Links {
		got = append(got, l.SpanContext.SpanID())
	}
	for _, w := range want {
		ids = append(ids, w.SpanContext.SpanID())
	}
	if !slices.Equal(got, ids) {
		t.Errorf("links of %q: got %v, want %v", s.Name, got, ids)
	}
}

// wantChild checks that s is a child of parent.
func wantChild(t *testing.T, s, parent tracetest.SpanStub) {
	t.Helper()
	if s.Parent.SpanID() != parent.SpanContext.SpanID() || s.SpanContext.TraceID() != parent.SpanContext.TraceID() {
		t.Errorf("parent of %q: got %v, want %q, %v", s.Name, s.Parent.SpanID(), parent.Name, parent.SpanContext.SpanID())
	}
}

// wantRoot checks that s begins a trace.
func wantRoot(t *testing.T, s tracetest.SpanStub) {
	t.Helper()
	if s.Parent.IsValid() {
		t.Errorf("parent of %q: got %v, want none", s.Name, s.Parent.SpanID())
	}
}

// collected returns what the instruments have measured.
func (r *rig) collected() (all []metricdata.Metrics) {
	r.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.metrics.Collect(context.Background(), &rm); err != nil {
		r.Fatal(err)
	}
	for _, sm := range rm.ScopeMetrics {
		all = append(all, sm.Metrics...)
	}
	return all
}

// point is one series: its attributes, as "key=value" sorted by key, and its value, which for a
// histogram is how often and the sum.
type point struct {
	attrs attribute.Set
	value string
}

func points(m metricdata.Metrics) (all []point) {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, fmt.Sprint(p.Value)})
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, fmt.Sprint(p.Value)})
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, fmt.Sprint(p.Value)})
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, fmt.Sprint(p.Count, "x", p.Sum)})
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, fmt.Sprint(p.Count, "x", p.Sum)})
		}
	}
	return all
}

// wantMetric compares all series of a metric, each as the values of its attributes, in the order of
// their keys and without those that say the same everywhere, and its value.
func (r *rig) wantMetric(name string, want ...string) {
	r.Helper()
	got := r.metric(name)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.Errorf("metric %s:\n got %q\nwant %q", name, got, want)
	}
}

func (r *rig) metric(name string) (series []string) {
	r.Helper()
	for _, m := range r.collected() {
		if m.Name != name {
			continue
		}
		for _, p := range points(m) {
			var words []string
			for _, kv := range p.attrs.ToSlice() {
				if kv.Key != "messaging.system" && kv.Key != "messaging.operation.type" {
					words = append(words, kv.Value.String())
				}
			}
			series = append(series, strings.Join(append(words, p.value), " "))
		}
	}
	slices.Sort(series)
	return series
}

// wantNo checks that no span and no metric shows the text.
func (r *rig) wantNo(text string) {
	r.Helper()
	for _, s := range r.spans.GetSpans() {
		if strings.Contains(fmt.Sprintf("%+v", s), text) {
			r.Errorf("a span shows %q: %+v", text, s)
		}
	}
	for _, m := range r.collected() {
		for _, p := range points(m) {
			if strings.Contains(fmt.Sprintf("%+v", p.attrs.ToSlice()), text) {
				r.Errorf("metric %s shows %q: %+v", m.Name, text, p)
			}
		}
	}
}

var errDown = errors.New("connection refused")

// broken is the memory queue with errors that are not nil instead of what it would do.
type broken struct {
	*queuetest.Queue
	enqueue, claim, extend, settle error
}

func (b *broken) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	if b.enqueue != nil {
		return b.enqueue
	}
	return b.Queue.Enqueue(ctx, db, jobs...)
}

func (b *broken) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if b.claim != nil {
		return nil, b.claim
	}
	return b.Queue.Claim(ctx, req)
}

func (b *broken) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if b.extend != nil {
		return nil, nil, b.extend
	}
	return b.Queue.Extend(ctx, lease, jobs...)
}

func (b *broken) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	if b.settle != nil {
		return nil, b.settle
	}
	return b.Queue.Settle(ctx, db, outcomes...)
}
