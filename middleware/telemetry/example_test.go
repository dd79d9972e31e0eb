package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

type Welcome struct{ UserID int64 }

var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")

// The trace of a job, from the request that enqueues it to what its handler does.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter() // in a program: one that sends them somewhere
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	tel, err := telemetry.New(telemetry.Options{TracerProvider: provider, Propagator: propagation.TraceContext{}})
	if err != nil {
		log.Fatal(err)
	}
	memory := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	q := tel.Queue(memory)
	tracer := provider.Tracer("shop")

	ctx, request := tracer.Start(ctx, "POST /users")
	if err := q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42})); err != nil {
		log.Fatal(err)
	}
	request.End()

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		_, span := tracer.Start(ctx, "send email")
		defer span.End()
		return nil
	})
	// In a program: engine.Worker{Backend: q, Handler: queue.Chain(mux, tel.Handler)}.Run(ctx)
	if _, err := memory.Drain(context.Background(), queue.Chain(mux, tel.Handler)); err != nil {
		log.Fatal(err)
	}

	names := make(map[string]string)
	for _, s := range spans.GetSpans() {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range spans.GetSpans() {
		if parent := names[s.Parent.SpanID().String()]; parent != "" {
			fmt.Printf("%s, in %s\n", s.Name, parent)
		}
	}
	// Output:
	// enqueue default, in POST /users
	// send email, in process default
	// process default, in enqueue default
}

// A program with OpenTelemetry's globals set needs no options.
func ExampleNew() {
	tel, err := telemetry.New(telemetry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	q := tel.Queue(queuetest.New(queuetest.Options{}))
	fmt.Println(q.Enqueue(context.Background(), nil, WelcomeEmail.New(Welcome{UserID: 42})))
	// Output: <nil>
}

// What a queue can do besides is found behind the wrapper.
func ExampleTelemetry_Queue() {
	tel, err := telemetry.New(telemetry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	q := tel.Queue(queuetest.New(queuetest.Options{}))
	_, ok := driver.As[driver.Waiter](q)
	fmt.Println(ok)
	// Output: true
}

// A program that only enqueues instruments just that; its jobs take the trace along.
func ExampleTelemetry_Enqueuer() {
	provider := sdktrace.NewTracerProvider()
	tel, err := telemetry.New(telemetry.Options{TracerProvider: provider, Propagator: propagation.TraceContext{}})
	if err != nil {
		log.Fatal(err)
	}
	memory := queuetest.New(queuetest.Options{})
	jobs := queue.ChainEnqueuer(memory, tel.Enqueuer)

	job := WelcomeEmail.New(Welcome{UserID: 42})
	if err := jobs.Enqueue(context.Background(), nil, job); err != nil {
		log.Fatal(err)
	}
	stored, _, err := memory.Job(context.Background(), job.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.Headers["traceparent"] != "", job.Headers)
	// Output: true map[]
}

// First in the chain, it sees what the middleware after it has made of a failure.
func ExampleTelemetry_Handler() {
	spans := tracetest.NewInMemoryExporter()
	tel, err := telemetry.New(telemetry.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
	if err != nil {
		log.Fatal(err)
	}
	giveUp := func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			return queue.Discard(next.HandleJob(ctx, job))
		})
	}
	h := queue.Chain(queue.HandlerFunc(func(context.Context, *queue.Job) error {
		return fmt.Errorf("no such user")
	}), tel.Handler, giveUp)
	_ = h.HandleJob(context.Background(), &queue.Job{Kind: "email.welcome", Attempt: 1})

	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.Status.Code, s.Status.Description)
		for _, kv := range s.Attributes {
			if kv.Key == "errand.job.outcome" {
				fmt.Println(kv.Value.AsString())
			}
		}
	}
	// Output:
	// process default Error no such user
	// dead
}

func ExampleTelemetry_Observe() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader() // in a program: a Prometheus or OTLP exporter
	tel, err := telemetry.New(telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		log.Fatal(err)
	}
	q := queuetest.New(queuetest.Options{})
	if err := q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42})); err != nil {
		log.Fatal(err)
	}

	stop, err := tel.Observe(q)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	printNames(reader)
	// Output:
	// errand.queue.depth
	// errand.queue.oldest_due.age
}

func ExampleTelemetry_ObserveWorkers() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader() // in a program: a Prometheus or OTLP exporter
	tel, err := telemetry.New(telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		log.Fatal(err)
	}
	q := queuetest.New(queuetest.Options{})
	err = q.ReportWorkers(ctx, driver.WorkerReport{ // an engine.Worker does it by itself
		WorkerInfo: driver.WorkerInfo{Name: "web-1", Queues: []string{"mail"}, Concurrency: 10},
		Stats:      []driver.MinuteStats{{Queue: "mail", Kind: "email.welcome", Age: 2 * time.Minute, Stats: queue.Stats{Done: 7}}},
	})
	if err != nil {
		log.Fatal(err)
	}

	stopWorkers, err := tel.ObserveWorkers(q)
	if err != nil {
		log.Fatal(err)
	}
	defer stopWorkers()
	stopStats, err := tel.ObserveStats(q)
	if err != nil {
		log.Fatal(err)
	}
	defer stopStats()

	printNames(reader)
	// Output:
	// errand.fleet.size
	// errand.slot.limit
	// errand.slot.usage
	// errand.queue.oldest_claim.age
	// errand.recent.outcomes
}

// printNames collects the metrics and prints their names.
func printNames(reader sdkmetric.Reader) {
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &metrics); err != nil {
		log.Fatal(err)
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name)
	}
}
