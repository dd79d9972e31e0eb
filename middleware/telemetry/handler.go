package telemetry

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/queue"
)

// Handler is a [queue.Middleware]. It makes a span of each run, which is the parent of what the
// handler traces, and measures it. It should be the first in a [queue.Chain], because it reports
// what the handler and the middleware inside of it have made of a job.
//
// The outcome is done, retry, dead, release or cancel, as [queue.OutcomeOf] reads it. A job that
// its handler has settled in its own transaction ([queue.ErrSettled]) counts as done. The span's
// status is an error if the outcome is retry or dead, if the handler panicked, or if the worker
// lost the job. A panic is passed on. Handler panics if next is nil.
func (t *Telemetry) Handler(next queue.Handler) queue.Handler {
	if next == nil {
		panic("telemetry: Handler: next is nil")
	}
	return &handler{t: t, next: next}
}

type handler struct {
	t    *Telemetry
	next queue.Handler
}

func (h *handler) Unwrap() queue.Handler { return h.next }

func (h *handler) HandleJob(ctx context.Context, job *queue.Job) (err error) {
	r := run{t: h.t, job: job}
	r.begin(ctx)
	defer r.end(&err)
	err = h.next.HandleJob(r.ctx, job)
	r.returned = true
	return err
}

// run is one call of a handler.
type run struct {
	t        *Telemetry
	ctx      context.Context // the handler's, with the span
	span     trace.Span
	job      *queue.Job
	series   *series
	began    time.Time
	returned bool
}

func (r *run) begin(ctx context.Context) {
	r.series = r.t.series.get(opProcess, queueOf(r.job), r.job.Kind, "")
	r.began = time.Now()
	r.ctx, r.span = r.t.startProcess(ctx, r.job, r.series)
	if r.span.IsRecording() {
		r.span.SetAttributes(idOf(r.job), attemptKey.Int(r.job.Attempt))
		setClient(r.span, r.job.Worker)
	}
	if due := dueAt(r.job); !due.IsZero() {
		r.t.instruments.latency.Record(r.ctx, max(r.began.Sub(due), 0).Seconds(), r.series.record...)
	}
}

// startProcess starts the span of a run. If the job has a creation context, the span is its child
// (unless NewTraces) and links to it; it also links to the span that the worker runs in.
func (t *Telemetry) startProcess(ctx context.Context, job *queue.Job, s *series) (context.Context, trace.Span) {
	opts := make([]trace.SpanStartOption, 0, 4)
	opts = append(opts, asConsumer, s.start)
	around := trace.SpanContextFromContext(ctx)
	if len(job.Headers) > 0 {
		ctx = t.propagator.Extract(ctx, propagation.MapCarrier(job.Headers))
	}
	creation := trace.SpanContextFromContext(ctx)
	if creation.Equal(around) { // the job brought none
		creation = trace.SpanContext{}
	}
	var links []trace.Link
	if creation.IsValid() {
		links = append(links, trace.Link{SpanContext: creation})
	}
	if around.IsValid() && (creation.IsValid() || t.newTraces) {
		links = append(links, trace.Link{SpanContext: around})
	}
	if len(links) > 0 {
		opts = append(opts, trace.WithLinks(links...))
	}
	if t.newTraces {
		opts = append(opts, trace.WithNewRoot())
	}
	return t.tracer.Start(ctx, s.span, opts...)
}

// dueAt returns when the job became due, by the database's clock; zero if the job does not say.
func dueAt(job *queue.Job) time.Time {
	if job.ScheduledAt.After(job.CreatedAt) {
		return job.ScheduledAt
	}
	return job.CreatedAt
}

// end must be deferred, so that it sees how the handler ended.
func (r *run) end(returned *error) {
	value := recover()
	switch {
	case value != nil:
		r.notePanic(value, debug.Stack())
		r.finish(panicked{value}, true)
		panic(value)
	case !r.returned:
		r.finish(errGoexit, true)
	default:
		if p, ok := panicIn(*returned); ok {
			r.notePanic(p.Value, p.Stack)
		}
		r.finish(*returned, false)
	}
}

var errGoexit = errors.New("telemetry: handler called runtime.Goexit")

// panicked is a panic as an error, which a worker reads as it reads its queue.PanicError. Its text
// leaves out the stack, which the span's event has.
type panicked struct{ value any }

func (p panicked) Error() string     { return fmt.Sprintf("panic: %v", p.value) }
func (p panicked) ErrorType() string { return "panic" }

func (p panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// panicIn returns the panic that middleware inside has recovered. ok is false if there is none, and
// for an error whose own methods panic.
func panicIn(err error) (p *queue.PanicError, ok bool) {
	defer func() {
		if recover() != nil {
			p, ok = nil, false
		}
	}()
	return errors.AsType[*queue.PanicError](err)
}

func (r *run) notePanic(value any, stack []byte) {
	if r.span.IsRecording() {
		r.span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(
			semconv.ExceptionType(fmt.Sprintf("%T", value)),
			semconv.ExceptionMessage(queue.ErrorText(panicked{value})),
			semconv.ExceptionStacktrace(string(stack)),
		))
	}
}

// finish records that the run has ended with err. If it has not failed otherwise, as by a panic,
// the outcome decides: a handler that snoozes or releases its job has not failed.
func (r *run) finish(err error, failed bool) {
	defer r.span.End()
	o, ok := queue.OutcomeOf(r.ctx, r.job, err) // not ok: its handler has settled the job, and o's action is Done
	outcome := o.Action.String()
	failed = failed || o.Action == queue.Retry || o.Action == queue.Dead
	// The worker may believe that a job is lost although its handler has settled it.
	lost := ok && errors.Is(context.Cause(r.ctx), queue.ErrLost)
	switch {
	case lost && (!failed || errors.Is(o.Err, queue.ErrLost)):
		err = queue.ErrLost
	case !failed:
		err = nil
	}
	if r.span.IsRecording() {
		r.span.SetAttributes(outcomeKey.String(outcome))
		if lost {
			r.span.SetAttributes(lostKey.Bool(true))
		}
		fail(r.span, err)
	}
	key := r.series.key
	r.t.instruments.process.Record(r.ctx, time.Since(r.began).Seconds(), r.series.recordOf(err)...)
	r.t.instruments.outcomes.Add(r.ctx, 1, r.t.series.get(key.op, key.queue, key.kind, outcome).add...)
}
