package telemetry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/queue"
)

// maxLinks is the most links of a span, which is also the most that the SDK keeps by
// default; of a larger batch the first jobs are linked to.
const maxLinks = 128

var (
	asProducer = trace.WithSpanKind(trace.SpanKindProducer)
	asConsumer = trace.WithSpanKind(trace.SpanKindConsumer)
	asClient   = trace.WithSpanKind(trace.SpanKindClient)
)

// creation returns the creation context in the job's headers; invalid where there is none.
func (t *Telemetry) creation(job *queue.Job) trace.SpanContext {
	if job == nil || len(job.Headers) == 0 {
		return trace.SpanContext{}
	}
	ctx := t.propagator.Extract(context.Background(), propagation.MapCarrier(job.Headers))
	return trace.SpanContextFromContext(ctx)
}

// links returns a link to the creation context of each job, as far as maxLinks.
func (t *Telemetry) links(jobs []*queue.Job) (links []trace.Link) {
	for _, job := range jobs {
		if len(links) == maxLinks {
			break
		}
		if sc := t.creation(job); sc.IsValid() {
			link := trace.Link{SpanContext: sc}
			if job.Fence != 0 { // it has been claimed; else its ID is not yet one
				link.Attributes = []attribute.KeyValue{idOf(job)}
			}
			links = append(links, link)
		}
	}
	return links
}

// describe says which jobs the span is about: the one, or how many.
func describe(span trace.Span, jobs []*queue.Job) {
	switch {
	case !span.IsRecording():
	case len(jobs) != 1:
		span.SetAttributes(semconv.MessagingBatchMessageCount(len(jobs)))
	case jobs[0] != nil && jobs[0].ID != 0:
		span.SetAttributes(idOf(jobs[0]))
	}
}

func idOf(job *queue.Job) attribute.KeyValue {
	return semconv.MessagingMessageID(strconv.FormatInt(job.ID, 10))
}

// fail marks the span as failed if err is not nil.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	span.SetStatus(codes.Error, queue.ErrorText(err))
	span.SetAttributes(errorType(err))
}

// errorType is what kind of error err is: the name of its Go type, of the one within
// fmt.Errorf, queue.RetryAfter and queue.Discard. An error whose own methods panic, as a nil
// pointer's may, is of the conventions' type for others.
func errorType(err error) (kv attribute.KeyValue) {
	defer func() {
		if recover() != nil {
			kv = semconv.ErrorTypeOther
		}
	}()
	for u := err; u != nil && isWrapper(err); u = errors.Unwrap(err) {
		err = u
	}
	return semconv.ErrorType(err)
}

var (
	verdictType = reflect.TypeOf(queue.Discard(nil))
	wrapType    = reflect.TypeOf(fmt.Errorf("%w", queue.ErrLost))
)

func isWrapper(err error) bool {
	t := reflect.TypeOf(err)
	return t == verdictType || t == wrapType
}
