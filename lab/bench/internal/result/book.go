package result

import (
	"cmp"
	"math"
	"slices"

	"github.com/errandhq/errand/lab/bench/internal/stats"
)

// Baseline is the system that the others are compared with, unless a table names another.
const Baseline = "errand"

// At is the prefix of cases that are points in time.
const At = "at "

// Place is where a figure belongs in a scenario.
type Place struct {
	Case   string // "" if the scenario has no cases
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
	Values []float64 // by round; NaN if it was not measured
}

// Gap is a measurement that is missing, and why.
type Gap struct {
	Place
	Reason string
	Failed bool // it was tried, and failed
}

// Table holds the rows of a scenario, in the order in which they were added.
type Table struct {
	Scenario string
	Title    string
	Note     string // what exactly is measured
	Baseline string // the system that the others are compared with; "" means Baseline
	Targets  []Target
	Series   bool // the cases are points in time
	Rounds   int  // how often each was measured; 0 means as often as the run's header says
	Chart    []Metric
	Rows     []*Row
	Gaps     []Gap
}

// Add adds the figures of a system from a round. Rounds count from 0. A NaN is a gap.
func (t *Table) Add(round int, system string, figures ...Figure) {
	for _, f := range figures {
		if math.IsNaN(f.Value) { // such as a quantile of nothing
			t.Miss(Gap{Place: Place{f.Case, system}, Reason: "no " + f.Metric.Name + " was measured", Failed: true})
			continue
		}
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

// Places lists the places that have rows, each once.
func (t *Table) Places() []Place { return distinct(t.Rows, func(r *Row) Place { return r.Place }) }

// Metrics lists the metrics that have rows, each once.
func (t *Table) Metrics() []Metric { return distinct(t.Rows, func(r *Row) Metric { return r.Metric }) }

// distinct returns the values of rows in the order in which they first come.
func distinct[T comparable](rows []*Row, value func(*Row) T) (values []T) {
	for _, r := range rows {
		if v := value(r); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

// Median returns the median of the rounds.
func (r *Row) Median() float64 { return stats.Median(r.measured()) }

// Min returns the smallest value of the rounds.
func (r *Row) Min() float64 { return slices.Min(r.measured()) }

// Max returns the largest value of the rounds.
func (r *Row) Max() float64 { return slices.Max(r.measured()) }

func (r *Row) measured() []float64 {
	return slices.DeleteFunc(slices.Clone(r.Values), math.IsNaN)
}

// RatioToBaseline returns the median of each round's ratio of r to the baseline in the same case.
// ok is false if no round has both.
func (t *Table) RatioToBaseline(r *Row) (ratio float64, ok bool) {
	base := t.Row(Place{r.Case, cmp.Or(t.Baseline, Baseline)}, r.Metric)
	if base == nil {
		return 0, false
	}
	return ratioOf(r, base)
}

// ratioOf returns the median of the ratios of the rounds that have both.
func ratioOf(of, over *Row) (ratio float64, ok bool) {
	var ratios []float64
	for i := range min(len(of.Values), len(over.Values)) {
		if q := of.Values[i] / over.Values[i]; !math.IsNaN(q) && !math.IsInf(q, 0) {
			ratios = append(ratios, q)
		}
	}
	return stats.Median(ratios), len(ratios) > 0
}
