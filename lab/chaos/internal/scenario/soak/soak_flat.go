package soak

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
)

// footprint is what the queue takes up on the server.
type footprint struct {
	connections int
	bytes       int64 // of the table of jobs, its indexes and its TOAST table
}

const footprintSQL = `SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name = $1), pg_total_relation_size('errand.jobs')`

func (s *soaked) measure(ctx context.Context) (f footprint, err error) {
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return f, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, footprintSQL, s.crew.At(0).Name).Scan(&f.connections, &f.bytes)
	return f, err
}

// checkFlat compares the last third with the first, beginning when all is warm.
func (s *soaked) checkFlat(gauges []child.Gauge) {
	const k, m = 1 << 10, 1 << 20
	s.flat("goroutines", trendOf(gauges, func(g child.Gauge) float64 { return float64(g.Goroutines) }), 2)
	s.flat("heap, KiB", trendOf(gauges, func(g child.Gauge) float64 { return float64(g.Heap) / k }), k)
	s.flat("connections", trendOf(s.footprints, func(f footprint) float64 { return float64(f.connections) }), 1)
	bytes := func(f footprint) float64 { return float64(f.bytes) / m }
	s.flat("table with its indexes, MiB", trendOf(s.footprints, bytes), 1)
	if !s.Short {
		s.Row.Note("table with its indexes, MiB, as a median of each tenth of the time: %.0f", tenths(s.footprints, bytes))
	}
}

// tenths are the medians of the tenths of a list: whether a figure rises all the time, or has come
// to an end of it.
func tenths[T any](list []T, figure func(T) float64) (medians []float64) {
	for i := range 10 {
		medians = append(medians, median(list[i*len(list)/10:(i+1)*len(list)/10], figure))
	}
	return medians
}

// flat demands that a trend does not rise, but for a tenth and a little more.
func (s *soaked) flat(what string, t trend, little float64) {
	s.Row.Check(t.last <= 1.1*t.first+little, what+": flat", "median %.0f in the first third, %.0f in the last, %d looks", t.first, t.last, t.looks)
}

// trend is how a figure begins and ends.
type trend struct {
	first, last float64 // the medians of the first third and of the last
	looks       int
}

func trendOf[T any](list []T, figure func(T) float64) trend {
	third := len(list) / 3
	return trend{median(list[:third], figure), median(list[len(list)-third:], figure), len(list)}
}

// median is NaN, which is not flat, of nothing.
func median[T any](list []T, figure func(T) float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	var figures []float64
	for _, v := range list {
		figures = append(figures, figure(v))
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}
