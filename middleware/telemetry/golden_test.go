package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// The names are what dashboards and alerts rest on: each metric with its unit, and each combination
// of attributes that its series have.
var golden = []string{
	"errand.batch.size {job} histogram: messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"errand.batch.size {job} histogram: messaging.destination.name messaging.operation.name messaging.system",
	"errand.fleet.size {worker} gauge: errand.worker.state",
	"errand.job.latency s histogram: errand.job.kind messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"errand.job.outcomes {job} counter: errand.job.kind errand.job.outcome messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"errand.lease.lost {job} counter: errand.job.kind messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"errand.lease.lost {job} counter: errand.job.kind messaging.destination.name messaging.operation.name messaging.system",
	"errand.queue.depth {job} gauge: errand.job.status messaging.destination.name",
	"errand.queue.oldest_claim.age s gauge: messaging.destination.name",
	"errand.queue.oldest_due.age s gauge: messaging.destination.name",
	"errand.recent.latency s gauge: errand.job.kind errand.quantile messaging.destination.name",
	"errand.recent.outcomes {job} gauge: errand.job.kind errand.job.outcome messaging.destination.name",
	"errand.recent.process.duration s gauge: errand.job.kind errand.quantile messaging.destination.name",
	"errand.slot.limit {slot} gauge: messaging.destination.name",
	"errand.slot.usage {slot} gauge: messaging.destination.name",
	"messaging.client.consumed.messages {message} counter: errand.job.kind messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"messaging.client.operation.duration s histogram: error.type messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"messaging.client.operation.duration s histogram: messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"messaging.client.operation.duration s histogram: messaging.destination.name messaging.operation.name messaging.system",
	"messaging.client.sent.messages {message} counter: errand.job.kind error.type messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"messaging.client.sent.messages {message} counter: errand.job.kind messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"messaging.process.duration s histogram: errand.job.kind error.type messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
	"messaging.process.duration s histogram: errand.job.kind messaging.destination.name messaging.operation.name messaging.operation.type messaging.system",
}

func TestGoldenMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		r.everything()
		var got []string
		for _, m := range r.collected() {
			if m.Description == "" {
				t.Errorf("%s has no description", m.Name)
			}
			for _, p := range points(m) {
				got = append(got, fmt.Sprintf("%s %s %s: %s", m.Name, m.Unit, kindOf(m), strings.Join(keys(p), " ")))
			}
		}
		slices.Sort(got)
		got = slices.Compact(got)
		for _, line := range got {
			if !slices.Contains(golden, line) {
				t.Errorf("not in the list: %s", line)
			}
		}
		for _, line := range golden {
			if !slices.Contains(got, line) {
				t.Errorf("only in the list: %s", line)
			}
		}
	})
}

// everything does each thing that is measured.
func (r *rig) everything() {
	r.observe(&gauged{Queue: r.memory, counts: []queue.StatusCount{{Queue: "default", Status: queue.StatusDead, Jobs: 1}}})
	r.observeFleet()
	r.report(driver.WorkerInfo{Name: "w", Queues: []string{"default"}, Concurrency: 10},
		driver.MinuteStats{Queue: "default", Kind: "k", Age: 2 * time.Minute, Stats: runs(3, 1, time.Second)})
	r.enqueue(r.Context(), newTasks(2)...)
	jobs := r.claim(2)
	time.Sleep(2 * time.Second)
	if _, err := r.memory.Reclaim(r.Context(), 1); err != nil {
		r.Fatal(err)
	}
	r.extend(jobs)
	r.settle(jobs...)
	r.drain(r.Context(), func(context.Context, *queue.Job) error { return nil })
	r.enqueue(r.Context(), newTask())
	r.drain(r.Context(), func(context.Context, *queue.Job) error { return errDown })
	down := r.Queue(&broken{Queue: r.memory, enqueue: errDown})
	if err := down.Enqueue(r.Context(), nil, newTask()); !errors.Is(err, errDown) {
		r.Errorf("error: got %v, want %v", err, errDown)
	}
}

func keys(p point) (keys []string) {
	for _, kv := range p.attrs.ToSlice() {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

func kindOf(m metricdata.Metrics) string {
	switch m.Data.(type) {
	case metricdata.Sum[int64]:
		return "counter"
	case metricdata.Gauge[int64], metricdata.Gauge[float64]:
		return "gauge"
	case metricdata.Histogram[int64], metricdata.Histogram[float64]:
		return "histogram"
	}
	return "unknown"
}

// Histograms reach from the shortest jobs to the longest waits.
func TestBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		r.everything()
		for _, m := range r.collected() {
			var bounds []float64
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				bounds = data.DataPoints[0].Bounds
			case metricdata.Histogram[int64]:
				bounds = data.DataPoints[0].Bounds
			default:
				continue
			}
			first, last := 0.0001, 600.0
			if m.Unit != "s" {
				first, last = 1, 5000
			}
			if bounds[0] != first || bounds[len(bounds)-1] != last || !slices.IsSorted(bounds) {
				t.Errorf("buckets of %s: got %v, want from %v to %v", m.Name, bounds, first, last)
			}
		}
	})
}

// mute cannot make instruments.
type mute struct{ noop.MeterProvider }

func (mute) Meter(string, ...metric.MeterOption) metric.Meter { return muteMeter{} }

type muteMeter struct{ noop.Meter }

func (muteMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errDown
}

func (muteMeter) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return nil, errDown
}

func TestInstrumentsThatCannotBeMade(t *testing.T) {
	if _, err := telemetry.New(telemetry.Options{MeterProvider: mute{}}); !errors.Is(err, errDown) || !strings.HasPrefix(err.Error(), "telemetry: ") {
		t.Errorf("New: got %v, want telemetry: %v", err, errDown)
	}
}
