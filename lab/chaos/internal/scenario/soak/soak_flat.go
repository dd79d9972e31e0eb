package soak

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
)

// footprint is what the queue uses on the server.
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

// checkFlat demands that nothing that the queue takes up grows without end.
//
// Heap, goroutines and connections return to what the load needs after every fault, so their last
// third is compared with their first. PostgreSQL does not shrink a table: its files keep the size
// of the largest backlog that the table ever had. They grow in steps until the first large faults
// have passed, and then stay. So the table's last third is compared with its second: its first
// third would only show that the run was not yet warm. A leak grows to the end, and fails here too.
func (s *soaked) checkFlat(gauges []child.Gauge) {
	const k, m = 1 << 10, 1 << 20
	s.checkLevel("goroutines", trendOf(gauges, func(g child.Gauge) float64 { return float64(g.Goroutines) }).sinceFirst(2))
	s.checkLevel("heap, KiB", trendOf(gauges, func(g child.Gauge) float64 { return float64(g.Heap) / k }).sinceFirst(k))
	s.checkLevel("connections", trendOf(s.footprints, func(f footprint) float64 { return float64(f.connections) }).sinceFirst(1))
	bytes := func(f footprint) float64 { return float64(f.bytes) / m }
	s.checkLevel("table with its indexes, MiB", tableLevel(trendOf(s.footprints, bytes)))
	if !s.Short {
		s.Row.Note("table with its indexes, MiB, as a median of each tenth of the time: %.0f", tenths(s.footprints, bytes))
	}
}

// tenths returns the medians of the tenths of a list. They show whether a figure rises all the
// time, or has stopped rising.
func tenths[T any](list []T, figure func(T) float64) (medians []float64) {
	for i := range 10 {
		medians = append(medians, median(list[i*len(list)/10:(i+1)*len(list)/10], figure))
	}
	return medians
}

func (s *soaked) checkLevel(what string, l level) {
	s.Row.Check(l.flat(), what+": flat", "median %.0f in the %s third, %.0f in the last, %d looks", l.before, l.third, l.last, l.looks)
}

// trend is how a figure changes during a run.
type trend struct {
	thirds [3]float64 // the medians of the thirds of the run
	looks  int        // how often the figure was read
}

func trendOf[T any](list []T, figure func(T) float64) trend {
	third := len(list) / 3
	return trend{
		thirds: [3]float64{
			median(list[:third], figure),
			median(list[third:len(list)-third], figure),
			median(list[len(list)-third:], figure),
		},
		looks: len(list),
	}
}

// level compares the last third of a trend with an earlier one.
type level struct {
	third  string // the earlier third: "first" or "second"
	before float64
	last   float64
	little float64 // how much a flat figure may rise beyond a tenth
	looks  int
}

func (t trend) sinceFirst(little float64) level {
	return level{"first", t.thirds[0], t.thirds[2], little, t.looks}
}

// tableLevel is the level of the table's size in MiB: see checkFlat.
func tableLevel(t trend) level { return level{"second", t.thirds[1], t.thirds[2], 1, t.looks} }

// flat reports whether the figure has risen by no more than a tenth and a little.
func (l level) flat() bool { return l.last <= 1.1*l.before+l.little }

// median returns NaN, which is not flat, for an empty list.
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
