package result

import (
	"cmp"
	"math"
	"slices"

	"github.com/errandhq/errand/lab/bench/internal/stats"
)

// Baseline is the system that the others are compared with, unless a table has another.
const Baseline = "errand"

// At begins the names of cases that are points in time.
const At = "at "

// Place is where a figure belongs within a scenario.
type Place struct {
	Case   string // "" where the scenario has none
	System string
}

// Figure is one thing measured once.
type Figure struct {
	Case   string
	Metric Metric
	Value  float64
}

// NewFigure returns a figure that belongs to the case that is being measured.
func NewFigure(m Metric, value float64) Figure { return Figure{Metric: m, Value: value} }

// Row is one thing measured in several rounds.
type Row struct {
	Place
	Metric Metric
	Values []float64 // by round; NaN where it was not measured
}

// Gap is what could not be measured, and why.
type Gap struct {
	Place
	Reason string
	Failed bool // it was tried, and went wrong
}

// Table holds the rows of a scenario in the order in which they came.
type Table struct {
	Scenario string
	Title    string
	Note     string // what exactly is measured
	Baseline string // what the others are compared with; "" means Baseline
	Targets  []Target
	Series   bool // the cases are points in time
	Chart    []Metric
	Rows     []*Row
	Gaps     []Gap
}

// Add adds what was measured of a system in a round, from 0.
func (t *Table) Add(round int, system string, figures ...Figure) {
	for _, f := range figures {
		row := t.Row(Place{f.Case, system}, f.Metric)
		if row == nil {
			row = &Row{Place: Place{f.Case, system}, Metric: f.Metric}
			t.Rows = append(t.Rows, row)
		}
		for len(row.Values) <= round {
			row.Values = append(row.Values, math.NaN())
		}
		row.Values[round] = f.Value
	}
}

// Miss adds a gap, once.
func (t *Table) Miss(g Gap) {
	if !slices.Contains(t.Gaps, g) {
		t.Gaps = append(t.Gaps, g)
	}
}

// Row returns the row of that place and metric, or nil.
func (t *Table) Row(p Place, m Metric) *Row {
	for _, r := range t.Rows {
		if r.Place == p && r.Metric == m {
			return r
		}
	}
	return nil
}

// Places lists those that have rows, each once.
func (t *Table) Places() []Place {
	var places []Place
	for _, r := range t.Rows {
		if !slices.Contains(places, r.Place) {
			places = append(places, r.Place)
		}
	}
	return places
}

// Metrics lists those that have rows, each once.
func (t *Table) Metrics() []Metric {
	var metrics []Metric
	for _, r := range t.Rows {
		if !slices.Contains(metrics, r.Metric) {
			metrics = append(metrics, r.Metric)
		}
	}
	return metrics
}

// Median is the middle of the rounds.
func (r *Row) Median() float64 { return stats.Median(r.measured()) }

// Min is the least of the rounds.
func (r *Row) Min() float64 { return slices.Min(r.measured()) }

// Max is the most of the rounds.
func (r *Row) Max() float64 { return slices.Max(r.measured()) }

func (r *Row) measured() []float64 {
	return slices.DeleteFunc(slices.Clone(r.Values), math.IsNaN)
}

// RatioToBaseline is the middle of the ratios, of each round, of r to what the
// baseline has in the same case. ok is false where there is none.
func (t *Table) RatioToBaseline(r *Row) (ratio float64, ok bool) {
	base := t.Row(Place{r.Case, cmp.Or(t.Baseline, Baseline)}, r.Metric)
	if base == nil {
		return 0, false
	}
	return ratioOf(r, base)
}

// ratioOf is the middle of the ratios of each round that has both.
func ratioOf(of, over *Row) (ratio float64, ok bool) {
	var ratios []float64
	for i := range min(len(of.Values), len(over.Values)) {
		if q := of.Values[i] / over.Values[i]; !math.IsNaN(q) && !math.IsInf(q, 0) {
			ratios = append(ratios, q)
		}
	}
	return stats.Median(ratios), len(ratios) > 0
}
