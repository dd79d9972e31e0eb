package telemetry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Enqueuer is a [queue.EnqueueMiddleware], for programs that only enqueue. It makes a span of each
// Enqueue and measures it; the jobs carry the span's context in their headers. The caller's jobs
// change only in what Enqueue fills in. It panics if next is nil.
//
// In a caller's transaction the span and the measurements remain even if it rolls back.
func (t *Telemetry) Enqueuer(next queue.Enqueuer) queue.Enqueuer {
	if _, ok := driver.As[queue.Enqueuer](next); !ok {
		panic("telemetry: Enqueuer: next is nil")
	}
	return &enqueuer{t: t, next: next}
}

type enqueuer struct {
	t    *Telemetry
	next queue.Enqueuer
}

func (e *enqueuer) Unwrap() queue.Enqueuer { return e.next }

func (e *enqueuer) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	if len(jobs) == 0 {
		return e.next.Enqueue(ctx, db)
	}
	began := time.Now()
	ctx, span := e.t.startEnqueue(ctx, jobs)
	defer span.End()
	err := e.t.withContext(ctx, jobs, func(jobs []*queue.Job) error {
		return e.next.Enqueue(ctx, db, jobs...)
	})
	if err == nil {
		describe(span, jobs)
		noteDuplicates(span, jobs)
	}
	fail(span, err)
	e.t.measure(ctx, e.t.series.get(opEnqueue, commonQueue(jobs), "", ""), began, len(jobs), err)
	if bad := (*queue.InvalidError)(nil); !errors.As(err, &bad) { // what was refused has not been sent
		e.t.count(ctx, e.t.instruments.sent, opEnqueue, sent(jobs, err), err)
	}
	return err
}

// sent returns the jobs that an Enqueue has sent: all but duplicates if it succeeded.
func sent(jobs []*queue.Job, err error) []*queue.Job {
	isDuplicate := func(job *queue.Job) bool { return job.Duplicate }
	if err != nil || !slices.ContainsFunc(jobs, isDuplicate) {
		return jobs
	}
	return slices.DeleteFunc(slices.Clone(jobs), isDuplicate)
}

// startEnqueue starts the span of an Enqueue. It is a producer's span, unless every job already has
// a creation context.
func (t *Telemetry) startEnqueue(ctx context.Context, jobs []*queue.Job) (context.Context, trace.Span) {
	s := t.series.get(opEnqueue, commonQueue(jobs), commonKind(jobs), "")
	links := t.links(jobs)
	kind := asProducer
	if len(links) == len(jobs) {
		kind = asClient
	}
	return t.tracer.Start(ctx, s.span, kind, s.start, trace.WithLinks(links...))
}

// withContext calls enqueue with copies of the jobs that carry ctx in their headers. It copies what
// enqueue fills in to the caller's jobs.
func (t *Telemetry) withContext(ctx context.Context, jobs []*queue.Job, enqueue func([]*queue.Job) error) error {
	fields := propagation.MapCarrier{}
	t.propagator.Inject(ctx, fields)
	if len(fields) == 0 {
		return enqueue(jobs)
	}
	short := propagation.MapCarrier{}
	t.propagator.Inject(baggage.ContextWithoutBaggage(ctx), short)
	copies := make([]queue.Job, len(jobs))
	sent := make([]*queue.Job, len(jobs))
	for i, job := range jobs {
		if job == nil {
			continue // the backend's to report
		}
		copies[i] = *job
		copies[i].Headers = t.headers(job, fields, short)
		sent[i] = &copies[i]
	}
	err := enqueue(sent)
	for i, job := range jobs {
		if job != nil {
			job.ID, job.Duplicate, job.Replaced = copies[i].ID, copies[i].Duplicate, copies[i].Replaced
		}
	}
	return err
}

// headers returns the job's headers with fields added, unless they already have a creation context.
// If the result is longer than a job may have, it adds short instead, or nothing.
func (t *Telemetry) headers(job *queue.Job, fields, short propagation.MapCarrier) map[string]string {
	if len(job.Headers) > 0 && t.creation(job).IsValid() {
		return job.Headers
	}
	for _, add := range []propagation.MapCarrier{fields, short} {
		if sizeOf(add)+sizeOf(job.Headers) > queue.MaxHeaders {
			continue
		}
		if len(job.Headers) == 0 {
			return add // shared by all such jobs: nobody writes to it
		}
		headers := maps.Clone(map[string]string(add))
		maps.Copy(headers, job.Headers)
		return headers
	}
	return job.Headers
}

// sizeOf returns the length of headers in bytes, as the limit counts it.
func sizeOf(headers map[string]string) (n int) {
	for k, v := range headers {
		n += len(k) + len(v)
	}
	return n
}

func noteDuplicates(span trace.Span, jobs []*queue.Job) {
	n := 0
	for _, job := range jobs {
		if job.Duplicate {
			n++
		}
	}
	if n > 0 {
		span.SetAttributes(duplicatesKey.Int(n))
	}
}
