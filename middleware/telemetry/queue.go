package telemetry

import (
	"context"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Queue returns q with spans and measurements of Enqueue (as [Telemetry.Enqueuer] makes them),
// Claim, Extend and Settle. [driver.As] still finds q's other capabilities, which are not measured:
// jobs claimed through [driver.TxClaimer] have no claim span. It panics if q is nil.
func (t *Telemetry) Queue(q queue.Queue) queue.Queue {
	if _, ok := driver.As[queue.Queue](q); !ok {
		panic("telemetry: Queue: q is nil")
	}
	return &observed{Enqueuer: t.Enqueuer(q), t: t, next: q}
}

type observed struct {
	queue.Enqueuer
	t    *Telemetry
	next queue.Queue
}

func (o *observed) Unwrap() queue.Queue { return o.next }

func (o *observed) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	began := time.Now()
	jobs, err := o.next.Claim(ctx, req)
	from := commonQueue(jobs)
	if len(jobs) == 0 && len(req.Queues) == 1 {
		from = req.Queues[0]
	}
	if len(jobs) > 0 || err != nil {
		var span trace.Span
		ctx, span = o.t.startCall(ctx, opClaim, from, jobs, began)
		defer span.End()
		setClient(span, req.Worker)
		fail(span, err)
		o.t.count(ctx, o.t.instruments.consumed, opClaim, jobs, nil)
	}
	o.t.measure(ctx, o.t.series.get(opClaim, from, "", ""), began, len(jobs), err)
	return jobs, err
}

func (o *observed) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if len(jobs) == 0 {
		return o.next.Extend(ctx, lease)
	}
	began := time.Now()
	lost, asked, err = o.next.Extend(ctx, lease, jobs...)
	about := lost
	if err != nil {
		about = jobs
	}
	if len(about) > 0 {
		var span trace.Span
		ctx, span = o.t.startCall(ctx, opExtend, commonQueue(about), about, began)
		defer span.End()
		setClient(span, workerOf(jobs))
		fail(span, err)
		o.t.noteLost(ctx, span, opExtend, lost)
	}
	o.t.measure(ctx, o.t.series.get(opExtend, commonQueue(jobs), "", ""), began, len(jobs), err)
	return lost, asked, err
}

func (o *observed) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	if len(outcomes) == 0 {
		return o.next.Settle(ctx, db)
	}
	began := time.Now()
	jobs := make([]*queue.Job, len(outcomes))
	for i, o := range outcomes {
		jobs[i] = o.Job
	}
	ctx, span := o.t.startCall(ctx, opSettle, commonQueue(jobs), jobs, began)
	defer span.End()
	lost, err = o.next.Settle(ctx, db, outcomes...)
	setClient(span, workerOf(jobs))
	if len(outcomes) == 1 && span.IsRecording() {
		span.SetAttributes(outcomeKey.String(outcomes[0].Action.String()))
	}
	fail(span, err)
	o.t.noteLost(ctx, span, opSettle, lost)
	o.t.measure(ctx, o.t.series.get(opSettle, commonQueue(jobs), "", ""), began, len(jobs), err)
	return lost, err
}

// startCall starts the span of a consumer's call that began at began, with links to the creation
// contexts of jobs.
func (t *Telemetry) startCall(ctx context.Context, op operation, queueName string, jobs []*queue.Job, began time.Time) (context.Context, trace.Span) {
	s := t.series.get(op, queueName, commonKind(jobs), "")
	ctx, span := t.tracer.Start(ctx, s.span, asClient, s.start, trace.WithTimestamp(began), trace.WithLinks(t.links(jobs)...))
	describe(span, jobs)
	return ctx, span
}

// noteLost records the jobs that a call found lost.
func (t *Telemetry) noteLost(ctx context.Context, span trace.Span, op operation, lost []*queue.Job) {
	if len(lost) > 0 {
		span.SetAttributes(batchLostKey.Int(len(lost)))
		t.count(ctx, t.instruments.lost, op, lost, nil)
	}
}

// setClient names the worker in the span, if the name is a valid one.
func setClient(span trace.Span, worker string) {
	if span.IsRecording() && worker != "" && showable(worker) {
		span.SetAttributes(semconv.MessagingClientID(worker))
	}
}

// workerOf returns the worker that holds the jobs.
func workerOf(jobs []*queue.Job) string {
	return common(jobs, func(j *queue.Job) string { return j.Worker })
}
