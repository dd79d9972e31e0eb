package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// recentTime is how much time the gauges of recent runs are about: whole minutes, of which the
	// last one has just ended.
	recentTime = 5 * time.Minute
	// maxRecent is how many queues and kinds the gauges of recent runs tell apart. Those with the
	// most runs are told apart, and the others are driver.OtherStats. Each has four outcomes, and
	// the SDK of OpenTelemetry keeps 2000 series of a metric.
	maxRecent = 400
)

// ObserveStats reads the statistics of q each time that the metrics are collected, until stop is
// called: what the runs of the last five whole minutes came to, by queue and kind, how long they
// took and how long their jobs had waited. They are those of all workers, also of programs without
// telemetry. A reading is one call of [driver.Statistician].Stats, and takes at most five seconds;
// the meter provider reports its errors.
//
// Every process that observes the same database reports the same figures: take the maximum over
// processes, not the sum. Queues and kinds without runs are left out. The 400 of them with the most
// runs are told apart; the others are reported as [driver.OtherStats].
//
// The error is the meter provider's, or an [*queue.InvalidError] if q is not a
// [driver.Statistician].
func (t *Telemetry) ObserveStats(q queue.Queue) (stop func(), err error) {
	statistician, ok := driver.As[driver.Statistician](q)
	if !ok {
		return nil, &queue.InvalidError{Field: "ObserveStats.q", Problem: fmt.Sprintf("%T is no driver.Statistician: it keeps no statistics", q)}
	}
	g := gauges{meter: t.meter}
	o := &statsObserver{
		statistician: statistician,
		outcomes:     g.int("errand.recent.outcomes", "{job}", "Number of runs in the last five minutes by outcome, of all workers."),
		process: g.float("errand.recent.process.duration", "s",
			"Quantiles of how long handlers have run in the last five minutes, within a factor of two."),
		latency: g.float("errand.recent.latency", "s",
			"Quantiles of how long jobs had been due when their handlers started in the last five minutes, within a factor of two."),
	}
	return g.register("observe statistics", o.read)
}

// statsObserver reads the gauges of recent runs.
type statsObserver struct {
	statistician     driver.Statistician
	outcomes         metric.Int64ObservableGauge
	process, latency metric.Float64ObservableGauge
}

func (o *statsObserver) read(ctx context.Context, to metric.Observer) error {
	end := time.Now().Truncate(time.Minute)
	all, err := o.statistician.Stats(ctx, queue.StatsFilter{From: end.Add(-recentTime), To: end, ByQueue: true, ByKind: true, Times: true})
	if err != nil {
		return err
	}
	for _, s := range most(all) {
		attrs := []attribute.KeyValue{semconv.MessagingDestinationName(s.Queue), kindKey.String(s.Kind)}
		with := func(kv attribute.KeyValue) metric.MeasurementOption {
			return metric.WithAttributes(append(attrs, kv)...)
		}
		for _, c := range []struct {
			outcome string
			runs    int64
		}{{"done", s.Done}, {"retry", s.Failed}, {"dead", s.Dead}, {"lost", s.Lost}} {
			to.ObserveInt64(o.outcomes, c.runs, with(outcomeKey.String(c.outcome)))
		}
		for _, q := range []struct {
			name string
			q    float64
		}{{"0.5", 0.5}, {"0.95", 0.95}, {"0.99", 0.99}} {
			if s.RunTimes.Count() > 0 {
				to.ObserveFloat64(o.process, s.RunTimes.Quantile(q.q).Seconds(), with(quantileKey.String(q.name)))
			}
			if s.WaitTimes.Count() > 0 {
				to.ObserveFloat64(o.latency, s.WaitTimes.Quantile(q.q).Seconds(), with(quantileKey.String(q.name)))
			}
		}
	}
	return nil
}

// most returns the statistics of the queues and kinds with the most runs, and those of all others
// added up.
func most(all []queue.StatsRecord) []queue.StatsRecord {
	if len(all) <= maxRecent {
		return all
	}
	runs := func(s queue.StatsRecord) int64 { return s.Done + s.Failed + s.Dead + s.Lost }
	slices.SortStableFunc(all, func(a, b queue.StatsRecord) int { return cmp.Compare(runs(b), runs(a)) })
	other := queue.StatsRecord{Queue: driver.OtherStats, Kind: driver.OtherStats}
	for _, s := range all[maxRecent:] {
		other.Add(s.Stats)
	}
	for i, s := range all[:maxRecent] {
		if s.Queue == other.Queue && s.Kind == other.Kind {
			all[i].Add(other.Stats)
			return all[:maxRecent]
		}
	}
	return append(all[:maxRecent], other)
}
