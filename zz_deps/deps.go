package zzdeps

import (
	_ "github.com/failsafe-go/failsafe-go/bulkhead"
	_ "github.com/failsafe-go/failsafe-go/circuitbreaker"
	_ "go.opentelemetry.io/otel"
	_ "go.opentelemetry.io/otel/metric"
	_ "go.opentelemetry.io/otel/propagation"
	_ "go.opentelemetry.io/otel/sdk/metric"
	_ "go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	_ "go.opentelemetry.io/otel/sdk/trace"
	_ "go.opentelemetry.io/otel/sdk/trace/tracetest"
	_ "go.opentelemetry.io/otel/semconv/v1.43.0"
	_ "go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	_ "go.opentelemetry.io/otel/trace"
)
