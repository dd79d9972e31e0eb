package telemetry

import (
	"cmp"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/errandhq/errand/queue/driver"
)

// sdkSeries is how many series of a metric the SDK of OpenTelemetry keeps by default. It drops the
// attributes of those that come later in a collection.
const sdkSeries = 1999

// choose returns the queues that a gauge tells apart, of those that have a size now and of those
// that it has known before: the largest first, most of them at most. It forgets the others, so that
// every collection chooses the same ones. The queue [driver.OtherStats] is then one of the others.
func choose[T any](known map[string]T, sizes map[string]int64, most int) []string {
	names := slices.Collect(maps.Keys(sizes))
	for name := range known {
		if _, ok := sizes[name]; !ok {
			names = append(names, name)
		}
	}
	if len(names) <= most {
		return names
	}
	rank := func(name string) int64 {
		if size, ok := sizes[name]; ok && name != driver.OtherStats {
			return size
		}
		return -1
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a, b)) })
	if i := slices.Index(names, driver.OtherStats); i >= 0 {
		names = append(slices.Delete(names, i, i+1), driver.OtherStats)
	}
	for _, name := range names[most:] {
		delete(known, name)
	}
	return names[:most]
}

// ofQueue returns the attributes of a gauge of a queue.
func ofQueue(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(semconv.MessagingDestinationName(name)))
}
