package telemetry

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/queue"
)

// maxLinks is the most links of a span, which is also the most that the SDK keeps by default. Of a
// larger batch only the first jobs are linked to.
const maxLinks = 128

var (
	asProducer = trace.WithSpanKind(trace.SpanKindProducer)
	asConsumer = trace.WithSpanKind(trace.SpanKindConsumer)
	asClient   = trace.WithSpanKind(trace.SpanKindClient)
)

// creation returns the creation context in the job's headers, which is invalid if there is none.
func (t *Telemetry) creation(job *queue.Job) trace.SpanContext {
	if job == nil || len(job.Headers) == 0 {
		return trace.SpanContext{}
	}
	ctx := t.propagator.Extract(context.Background(), propagation.MapCarrier(job.Headers))
	return trace.SpanContextFromContext(ctx)
}

// links returns a link to the creation context of each job, at most maxLinks.
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

// describe sets which jobs the span is about: the one job, or their number.
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

// errorType returns the kind of err: the name of its Go type. If err only wraps others, as the
// errors of fmt.Errorf, errors.Join, queue.Discard and errand's middleware do, it is the type of
// the first one inside. An error whose own methods panic, as a nil pointer's may, has the
// conventions' type for others.
func errorType(err error) (kv attribute.KeyValue) {
	defer func() {
		if recover() != nil {
			kv = semconv.ErrorTypeOther
		}
	}()
	for inner := unwrap(err); inner != nil; inner = unwrap(err) {
		err = inner
	}
	return semconv.ErrorType(err)
}

// unwrap returns the first error inside err if err only wraps others, else nil.
func unwrap(err error) error {
	if err == nil || !isWrapper(err) {
		return nil
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	var several interface{ Unwrap() []error } // err itself: it wraps no single error
	if errors.As(err, &several) && len(several.Unwrap()) > 0 {
		return several.Unwrap()[0]
	}
	return nil
}

// isWrapper reports whether err's type says nothing of what went wrong: it is one that fmt, errors
// and errand keep to themselves, and does not name its own ErrorType.
func isWrapper(err error) bool {
	if _, named := err.(interface{ ErrorType() string }); named {
		return false
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	from := t.PkgPath()
	return (from == "fmt" || from == "errors" || strings.HasPrefix(from, module+"/")) && unicode.IsLower(rune(t.Name()[0]))
}
