package report

import (
	"io"

	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/internal/report"
)

// record is an element of the JSON array: a figure, or a gap.
type record struct {
	Scenario      string   `json:"scenario"` // with the case after a slash
	System        string   `json:"system"`
	Metric        string   `json:"metric,omitempty"`
	Unit          string   `json:"unit,omitempty"`
	Median        *float64 `json:"median,omitempty"`
	Min           *float64 `json:"min,omitempty"`
	Max           *float64 `json:"max,omitempty"`
	RatioToErrand *float64 `json:"ratio_to_errand,omitempty"` // absent if errand has no such figure
	Missing       string   `json:"missing,omitempty"`
	Failed        string   `json:"failed,omitempty"`
}

// JSON writes the figures for programs, as an array.
func JSON(w io.Writer, tables []*result.Table) error {
	records := []record{}
	for _, t := range tables {
		for _, row := range t.Rows {
			records = append(records, recordOf(t, row))
		}
		for _, g := range t.Gaps {
			r := record{Scenario: scenarioOf(t, g.Place), System: g.System, Missing: g.Reason}
			if g.Failed {
				r.Missing, r.Failed = "", g.Reason
			}
			records = append(records, r)
		}
	}
	return report.JSON(w, records)
}

func recordOf(t *result.Table, row *result.Row) record {
	r := record{
		Scenario: scenarioOf(t, row.Place), System: row.System, Metric: row.Metric.Name, Unit: row.Metric.Unit,
		Median: new(row.Median()), Min: new(row.Min()), Max: new(row.Max()),
	}
	if ratio, ok := t.RatioToBaseline(row); ok {
		r.RatioToErrand = new(ratio)
	}
	return r
}

func scenarioOf(t *result.Table, p result.Place) string {
	if p.Case == "" {
		return t.Scenario
	}
	return t.Scenario + "/" + p.Case
}
