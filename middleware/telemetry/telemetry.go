package telemetry

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation: this package's import path.
const scope = module + "/middleware/telemetry"

const module = "github.com/errandhq/errand"

// Options configure [New]. The zero value works in a program that sets OpenTelemetry's globals.
type Options struct {
	// TracerProvider makes the spans; nil means [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider
	// MeterProvider takes the measurements; nil means [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider
	// Propagator carries contexts in the headers of jobs; nil means [otel.GetTextMapPropagator],
	// which carries nothing unless the program has set one, such as [propagation.TraceContext]. The
	// programs that enqueue and the workers need the same one.
	Propagator propagation.TextMapPropagator
	// NewTraces makes the span of each run begin a trace of its own, with a link to the creation
	// context, instead of being its child. Set it for jobs that run long after their request, or in
	// great numbers for one request. Baggage in the headers is passed on either way.
	NewTraces bool
}

// Telemetry instruments queues and handlers. [New] makes one; a program needs only one. Its methods
// may be called concurrently.
type Telemetry struct {
	tracer      trace.Tracer
	meter       metric.Meter
	propagator  propagation.TextMapPropagator
	newTraces   bool
	instruments instruments
	series      seriesCache
}

// New returns a Telemetry. It returns an error if the meter provider cannot make an instrument.
func New(opts Options) (*Telemetry, error) {
	if opts.TracerProvider == nil {
		opts.TracerProvider = otel.GetTracerProvider()
	}
	if opts.MeterProvider == nil {
		opts.MeterProvider = otel.GetMeterProvider()
	}
	if opts.Propagator == nil {
		opts.Propagator = otel.GetTextMapPropagator()
	}
	t := &Telemetry{
		tracer:     opts.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		meter:      opts.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)),
		propagator: opts.Propagator,
		newTraces:  opts.NewTraces,
	}
	var err error
	if t.instruments, err = newInstruments(t.meter); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return t, nil
}
