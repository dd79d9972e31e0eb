package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/errandhq/errand/queue"
)

// seconds are the convention's buckets from 5 ms to 10 s, so that errand's figures compare with
// those of other systems, and more at both ends: jobs take 100 µs, and wait for minutes.
var seconds = metric.WithExplicitBucketBoundaries(
	0.0001, 0.00025, 0.0005, 0.001, 0.0025,
	0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
	30, 60, 120, 300, 600,
)

// sizes reach up to the largest batch that a worker settles or extends.
var sizes = metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

// instruments take all measurements except those of Observe, ObserveWorkers and ObserveStats.
type instruments struct {
	operation metric.Float64Histogram // how long calls of the queue take
	sent      metric.Int64Counter
	consumed  metric.Int64Counter
	process   metric.Float64Histogram // how long handlers run
	latency   metric.Float64Histogram
	outcomes  metric.Int64Counter
	lost      metric.Int64Counter
	batch     metric.Int64Histogram
}

func newInstruments(m metric.Meter) (instruments, error) {
	operation, err1 := messagingconv.NewClientOperationDuration(m, seconds)
	sent, err2 := messagingconv.NewClientSentMessages(m)
	consumed, err3 := messagingconv.NewClientConsumedMessages(m)
	process, err4 := messagingconv.NewProcessDuration(m, seconds)
	latency, err5 := m.Float64Histogram("errand.job.latency", seconds, metric.WithUnit("s"),
		metric.WithDescription("Time from when a job was due until its handler started."))
	outcomes, err6 := m.Int64Counter("errand.job.outcomes", metric.WithUnit("{job}"),
		metric.WithDescription("Number of runs of handlers, by outcome."))
	lost, err7 := m.Int64Counter("errand.lease.lost", metric.WithUnit("{job}"),
		metric.WithDescription("Number of jobs that their worker no longer held when it extended or settled them."))
	batch, err8 := m.Int64Histogram("errand.batch.size", sizes, metric.WithUnit("{job}"),
		metric.WithDescription("Number of jobs in a call of the queue."))
	return instruments{
		operation: operation.Inst(),
		sent:      sent.Inst(),
		consumed:  consumed.Inst(),
		process:   process.Inst(),
		latency:   latency,
		outcomes:  outcomes,
		lost:      lost,
		batch:     batch,
	}, errors.Join(err1, err2, err3, err4, err5, err6, err7, err8)
}

// measure records a call of the queue that began at began and had n jobs.
func (t *Telemetry) measure(ctx context.Context, s *series, began time.Time, n int, err error) {
	t.instruments.operation.Record(ctx, time.Since(began).Seconds(), s.recordOf(err)...)
	if n > 0 {
		t.instruments.batch.Record(ctx, int64(n), s.record...)
	}
}

// count adds jobs to c, by queue and kind.
func (t *Telemetry) count(ctx context.Context, c metric.Int64Counter, op operation, jobs []*queue.Job, err error) {
	type group struct {
		queue, kind string
		jobs        int64
	}
	var groups []group // few: a scan finds a job's sooner than a map would
next:
	for _, job := range jobs {
		if job == nil {
			continue
		}
		q := queueOf(job)
		for i := range groups {
			if g := &groups[i]; g.queue == q && g.kind == job.Kind {
				g.jobs++
				continue next
			}
		}
		groups = append(groups, group{q, job.Kind, 1})
	}
	for _, g := range groups {
		c.Add(ctx, g.jobs, t.series.get(op, g.queue, g.kind, "").addOf(err)...)
	}
}
