package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// observeTimeout bounds a reading, because some readers, such as the Prometheus exporter, set no
// limit.
const observeTimeout = 5 * time.Second

// Observe reads q each time that the metrics are collected, until stop is called. If q is a
// [driver.Inspector], it reports the depth of each queue by status; if q is a [driver.Inspector],
// how long the oldest due job has waited. What q cannot do has no metric. A reading takes at most
// five seconds; the meter provider reports its errors.
//
// Every process that observes the same database reports the same figures: take the maximum over
// processes, not the sum. Depths above 10,000 jobs may be estimates.
//
// A queue that was seen once is reported until stop, with zeros when it is empty; its age is 0
// while no job is due.
//
// The SDK of OpenTelemetry keeps 2,000 series of a metric, and each queue has one for each status.
// So the 498 queues with the most jobs that are not completed are told apart: 398 once held or
// cancelled jobs were seen, 332 with both. The others are reported together as [driver.OtherStats],
// with the highest of their ages, and with zeros later.
//
// Observe returns the meter provider's error, or an [*queue.InvalidError] if q is nil.
func (t *Telemetry) Observe(q queue.Queue) (stop func(), err error) {
	if q == nil {
		return nil, &queue.InvalidError{Field: "Observe.q", Problem: "nil"}
	}
	o := &observer{queues: make(map[string]queueAttributes), others: make(map[queue.Status]int64), statuses: slices.Clone(statuses)}
	g := gauges{meter: t.meter}
	if inspector, ok := driver.As[driver.Inspector](q); ok {
		o.queue = inspector
		o.depth = g.int("errand.queue.depth", "{job}", "Number of jobs by queue and status.")
		o.age = g.float("errand.queue.oldest_due.age", "s", "How long the oldest job that is due has waited, by the database's clock.")
	}
	return g.register("observe", o.read)
}

// gauges are the instruments of one observation.
type gauges struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

// int returns a new gauge of whole numbers.
func (g *gauges) int(name, unit, description string) metric.Int64ObservableGauge {
	gauge, err := g.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	g.all, g.errs = append(g.all, gauge), append(g.errs, err)
	return gauge
}

// float returns a new gauge.
func (g *gauges) float(name, unit, description string) metric.Float64ObservableGauge {
	gauge, err := g.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	g.all, g.errs = append(g.all, gauge), append(g.errs, err)
	return gauge
}

// register calls read each time that the metrics are collected, until stop is called. One call is
// under way at a time, and it takes at most observeTimeout.
func (g *gauges) register(what string, read metric.Callback) (stop func(), err error) {
	if err := errors.Join(g.errs...); err != nil {
		return nil, fmt.Errorf("telemetry: %s: %w", what, err)
	}
	var mu sync.Mutex // each reader of the provider makes its own reading
	registration, err := g.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		mu.Lock()
		defer mu.Unlock()
		if err := read(ctx, to); err != nil {
			return fmt.Errorf("telemetry: %s: %w", what, err)
		}
		return nil
	}, g.all...)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %s: %w", what, err)
	}
	return func() {
		if err := registration.Unregister(); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// observer reads a queue's gauges.
type observer struct {
	queue    driver.Inspector // nil if the queue is none
	depth    metric.Int64ObservableGauge
	age      metric.Float64ObservableGauge
	queues   map[string]queueAttributes // those that are told apart
	others   map[queue.Status]int64     // the jobs of the others, by each status they have ever had
	aged     bool                       // whether the others have ever had an age
	statuses []queue.Status             // those that were seen
}

// most returns how many queues are told apart: each one has at most a series for each status, and
// so have the others together.
func (o *observer) most() int { return sdkSeries/len(o.statuses) - 1 }

// queueAttributes are the attributes of a queue's observations.
type queueAttributes struct {
	depth map[queue.Status]metric.MeasurementOption
	age   metric.MeasurementOption
}

// statuses are those that each queue reports, even if the depth is 0.
var statuses = []queue.Status{queue.StatusPending, queue.StatusRunning, queue.StatusCompleted, queue.StatusDead}

func (o *observer) read(ctx context.Context, to metric.Observer) error {
	if o.queue == nil {
		return nil
	}
	return errors.Join(o.readDepth(ctx, to), o.readAge(ctx, to))
}

func (o *observer) readDepth(ctx context.Context, to metric.Observer) error {
	counts, err := o.queue.Counts(ctx)
	if err != nil {
		return err
	}
	type group struct {
		queue  string
		status queue.Status
	}
	jobs := make(map[group]int64, len(counts))
	sizes := make(map[string]int64)
	for _, c := range counts {
		jobs[group{c.Queue, c.Status}] = c.Jobs
		size := c.Jobs
		if c.Status == queue.StatusCompleted {
			size = 0
		}
		sizes[c.Queue] += size
		if !slices.Contains(o.statuses, c.Status) {
			o.statuses = append(o.statuses, c.Status)
		}
	}
	o.choose(sizes)
	for status := range o.others {
		o.others[status] = 0
	}
	for _, c := range counts {
		if _, ok := o.queues[c.Queue]; ok {
			o.remember(c.Queue, c.Status)
		} else {
			o.others[c.Status] += c.Jobs
		}
	}
	for name, attrs := range o.queues {
		for status, attr := range attrs.depth {
			to.ObserveInt64(o.depth, jobs[group{name, status}], attr)
		}
	}
	for status, n := range o.others {
		to.ObserveInt64(o.depth, n, ofStatus(driver.OtherStats, status))
	}
	return nil
}

// choose remembers the queues that are told apart.
func (o *observer) choose(sizes map[string]int64) {
	for _, name := range choose(o.queues, sizes, o.most()) {
		o.remember(name, queue.StatusPending)
	}
}

// hasRoom reports whether all queues that have a size can be told apart, too.
func (o *observer) hasRoom(sizes map[string]int64) bool {
	n := len(o.queues)
	for name := range sizes {
		if _, ok := o.queues[name]; !ok {
			n++
		}
	}
	return n <= o.most()
}

// readAge runs after readDepth, which may know of queues without due jobs.
func (o *observer) readAge(ctx context.Context, to metric.Observer) error {
	backlogs, err := o.queue.Backlogs(ctx)
	if err != nil {
		return err
	}
	ages := make(map[string]time.Duration, len(backlogs))
	sizes := make(map[string]int64)
	for _, b := range backlogs {
		ages[b.Queue], sizes[b.Queue] = b.Age, int64(b.Age)
	}
	if o.hasRoom(sizes) {
		o.choose(sizes)
	}
	others := max(ages[driver.OtherStats], 0) // a queue may have that name
	for name, age := range ages {
		if _, ok := o.queues[name]; !ok {
			others, o.aged = max(others, age), true
		}
	}
	for name, attrs := range o.queues {
		to.ObserveFloat64(o.age, max(ages[name], 0).Seconds(), attrs.age)
	}
	if o.aged {
		to.ObserveFloat64(o.age, others.Seconds(), ofQueue(driver.OtherStats))
	}
	return nil
}

func ofStatus(name string, status queue.Status) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(semconv.MessagingDestinationName(name), statusKey.String(string(status))))
}

// remember notes a queue, and that it has had jobs of that status.
func (o *observer) remember(name string, status queue.Status) {
	attrs, ok := o.queues[name]
	if !ok {
		attrs = queueAttributes{depth: make(map[queue.Status]metric.MeasurementOption), age: ofQueue(name)}
		o.queues[name] = attrs
		for _, s := range statuses {
			o.remember(name, s)
		}
	}
	if _, ok := attrs.depth[status]; !ok {
		attrs.depth[status] = ofStatus(name, status)
	}
}
