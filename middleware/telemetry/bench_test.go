package telemetry_test

import (
	"context"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
)

// Each way to be set up: what a run and an enqueue cost beyond the handler and the backend.
func setups(b *testing.B, run func(b *testing.B, tel *telemetry.Telemetry)) {
	none := telemetry.Options{TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(), Propagator: propagation.TraceContext{}}
	meters := none
	meters.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	sampled := meters
	sampled.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(dropped{}))
	unsampled := meters
	unsampled.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, s := range []struct {
		name string
		opts telemetry.Options
	}{{"noop", none}, {"metrics", meters}, {"unsampled", unsampled}, {"sampled", sampled}} {
		b.Run(s.name, func(b *testing.B) {
			tel, err := telemetry.New(s.opts)
			if err != nil {
				b.Fatal(err)
			}
			run(b, tel)
		})
	}
}

// dropped is a processor that has nowhere to send spans to.
type dropped struct{}

func (dropped) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (dropped) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error                  { return nil }
func (dropped) ForceFlush(context.Context) error                { return nil }

// BenchmarkHandler is one run of a handler that does nothing.
func BenchmarkHandler(b *testing.B) {
	const parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	setups(b, func(b *testing.B, tel *telemetry.Telemetry) {
		h := tel.Handler(queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
		job := &queue.Job{ID: 1234567, Queue: "default", Kind: "k", Attempt: 1, Worker: "w", Headers: map[string]string{"traceparent": parent}}
		b.ReportAllocs()
		for b.Loop() {
			if err := h.HandleJob(b.Context(), job); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEnqueue is one Enqueue of a job into nothing, and of a hundred.
func BenchmarkEnqueue(b *testing.B) {
	for name, n := range map[string]int{"1": 1, "100": 100} {
		b.Run(name, func(b *testing.B) {
			setups(b, func(b *testing.B, tel *telemetry.Telemetry) {
				q := tel.Enqueuer(queue.EnqueuerFunc(func(context.Context, queue.DB, ...*queue.Job) error { return nil }))
				jobs := make([]*queue.Job, n)
				for i := range jobs {
					jobs[i] = &queue.Job{Kind: "k"}
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := q.Enqueue(b.Context(), nil, jobs...); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
