package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/errandhq/errand/middleware/telemetry"
)

// signals is OpenTelemetry, set up for this process. A program that uses its globals
// (otel.SetTracerProvider and so on) need not hand these around.
type signals struct {
	spans      *tracetest.InMemoryExporter // in a program: one that sends them somewhere
	tracers    *sdktrace.TracerProvider
	meters     *sdkmetric.MeterProvider
	propagator propagation.TextMapPropagator
	prometheus http.Handler // serves the metrics
	errand     *telemetry.Telemetry
}

func newSignals() (*signals, error) {
	registry := prometheus.NewRegistry()
	// The names that dashboards know, whichever others the scraper could read.
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, err
	}
	s := &signals{
		spans:      tracetest.NewInMemoryExporter(),
		meters:     sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		propagator: propagation.TraceContext{},
		prometheus: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans)) // in a program: WithBatcher
	s.errand, err = telemetry.New(telemetry.Options{TracerProvider: s.tracers, MeterProvider: s.meters, Propagator: s.propagator})
	return s, err
}

// close sends what has not been sent.
func (s *signals) close() error {
	ctx := context.Background()
	return errors.Join(s.tracers.Shutdown(ctx), s.meters.Shutdown(ctx))
}
