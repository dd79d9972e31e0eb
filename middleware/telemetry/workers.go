package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ObserveWorkers reads the workers of q each time that the metrics are collected, until stop is
// called: how many there are in which state, and for each queue how many handlers its workers may
// run, how many run, and how long ago the last claims were. A reading is one call of
// [driver.Fleet].Workers, and takes at most five seconds; the meter provider reports its errors.
//
// Workers report themselves every ten seconds, so the figures are that old. Every process that
// observes the same database reports the same figures: take the maximum over processes, not the
// sum. A worker that serves several queues counts for each of them. A queue that was seen once is
// reported until stop, with zeros while no worker serves it. Of more than 1,998 queues those with
// the most slots are told apart. The others are reported together as [driver.OtherStats], and with
// zeros later.
//
// The error is the meter provider's, or an [*queue.InvalidError] if q is not a [driver.Fleet].
func (t *Telemetry) ObserveWorkers(q queue.Queue) (stop func(), err error) {
	fleet, ok := driver.As[driver.Fleet](q)
	if !ok {
		return nil, &queue.InvalidError{Field: "ObserveWorkers.q", Problem: fmt.Sprintf("%T is no driver.Fleet: it knows no workers", q)}
	}
	g := gauges{meter: t.meter}
	o := &workersObserver{
		fleet: fleet, queues: make(map[string]metric.MeasurementOption),
		size:  g.int("errand.fleet.size", "{worker}", "Number of workers by state."),
		limit: g.int("errand.slot.limit", "{slot}", "How many handlers the live workers of a queue may run at once."),
		usage: g.int("errand.slot.usage", "{slot}", "How many handlers the live workers of a queue run, for whatever queue."),
		claim: g.float("errand.queue.oldest_claim.age", "s",
			"How long ago the last claim was of that live worker of a queue which has not claimed for longest."),
	}
	return g.register("observe workers", o.read)
}

// workersObserver reads the gauges of workers.
type workersObserver struct {
	fleet        driver.Fleet
	size         metric.Int64ObservableGauge
	limit, usage metric.Int64ObservableGauge
	claim        metric.Float64ObservableGauge
	queues       map[string]metric.MeasurementOption // those that are told apart
	others       bool                                // whether there have ever been others
}

// workerState is what a worker does, as far as its reports say.
type workerState string

const (
	live     workerState = "live"
	draining workerState = "draining" // it was told to stop, and claims nothing more
	vanished workerState = "vanished" // it has not reported itself for driver.VanishedAfter
)

var fleetSizes = map[workerState]metric.MeasurementOption{
	live:     metric.WithAttributes(workerStateKey.String(string(live))),
	draining: metric.WithAttributes(workerStateKey.String(string(draining))),
	vanished: metric.WithAttributes(workerStateKey.String(string(vanished))),
}

func stateOf(w driver.WorkerRecord) workerState {
	switch {
	case w.Vanished:
		return vanished
	case !w.DrainingAt.IsZero():
		return draining
	}
	return live
}

// slots are the slots of the live workers that serve a queue.
type slots struct {
	limit, usage int64
	claim        time.Duration // the age of the oldest last claim
}

func (o *workersObserver) read(ctx context.Context, to metric.Observer) error {
	workers, err := o.fleet.Workers(ctx)
	if err != nil {
		return err
	}
	size := make(map[workerState]int64)
	served, limits := make(map[string]slots), make(map[string]int64)
	for _, w := range workers {
		state := stateOf(w)
		size[state]++
		for _, name := range w.Queues {
			if state == live {
				served[name] = served[name].with(w)
			}
			limits[name] = served[name].limit
		}
	}
	for state, attrs := range fleetSizes {
		to.ObserveInt64(o.size, size[state], attrs)
	}
	o.observe(to, served, limits)
	return nil
}

// observe reports the slots of the queues.
func (o *workersObserver) observe(to metric.Observer, served map[string]slots, limits map[string]int64) {
	others, areServed := slots{}, false
	chosen := choose(o.queues, limits, sdkSeries-1)
	for _, name := range chosen {
		if o.queues[name] == nil {
			o.queues[name] = ofQueue(name)
		}
	}
	for name, s := range served {
		if o.queues[name] == nil {
			others, areServed = others.and(s), true
		}
	}
	o.others = o.others || areServed
	report := func(s slots, isServed bool, attrs metric.MeasurementOption) {
		to.ObserveInt64(o.limit, s.limit, attrs)
		to.ObserveInt64(o.usage, s.usage, attrs)
		if isServed {
			to.ObserveFloat64(o.claim, s.claim.Seconds(), attrs)
		}
	}
	for name, attrs := range o.queues {
		s, ok := served[name]
		report(s, ok, attrs)
	}
	if o.others {
		report(others, areServed, ofQueue(driver.OtherStats))
	}
}

// with returns s with the slots of one more worker. A worker that has not claimed yet counts since
// its start.
func (s slots) with(w driver.WorkerRecord) slots {
	claimed := w.ClaimedAt
	if claimed.IsZero() {
		claimed = w.StartedAt
	}
	s.limit += int64(w.Concurrency)
	s.usage += int64(w.Busy)
	s.claim = max(s.claim, w.SeenAt.Sub(claimed)+w.Silent)
	return s
}

// and returns the slots of two queues together.
func (s slots) and(t slots) slots {
	return slots{s.limit + t.limit, s.usage + t.usage, max(s.claim, t.claim)}
}
