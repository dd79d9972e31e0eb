package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/errandhq/errand/lab/bench/internal/result"
)

// grid is a table in cells: a head, and a row for each place.
type grid struct {
	head []string
	rows [][]string
}

// layOut arranges t. The metrics of its chart have their spread and their ratio to errand, the
// others only the median.
func layOut(t *result.Table) grid {
	g := grid{head: []string{"system"}}
	cases := slices.ContainsFunc(t.Places(), func(p result.Place) bool { return p.Case != "" })
	if cases {
		g.head = append(g.head, "case")
	}
	metrics := t.Metrics()
	for _, m := range metrics {
		g.head = append(g.head, m.Header())
		if spread(t, m) {
			g.head = append(g.head, "[least … most]", "to errand")
		}
	}
	for _, p := range inOrder(t) {
		row := []string{p.System}
		if cases {
			row = append(row, p.Case)
		}
		for _, m := range metrics {
			row = append(row, cells(t, p, m)...)
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// spread reports whether m is shown with its spread.
func spread(t *result.Table, m result.Metric) bool { return !t.Series && slices.Contains(t.Chart, m) }

func cells(t *result.Table, p result.Place, m result.Metric) []string {
	row := t.Row(p, m)
	if row == nil {
		return make([]string, map[bool]int{false: 1, true: 3}[spread(t, m)])
	}
	if !spread(t, m) {
		return []string{number(row.Median())}
	}
	ratio := ""
	if r, ok := t.RatioToBaseline(row); ok {
		ratio = strconv.FormatFloat(r, 'f', 2, 64)
	}
	return []string{number(row.Median()), fmt.Sprintf("[%s … %s]", number(row.Min()), number(row.Max())), ratio}
}

// inOrder returns the places of t by case. Cases and systems keep the order of the first round.
func inOrder(t *result.Table) []result.Place {
	places := t.Places()
	var cases []string
	for _, p := range places {
		if !slices.Contains(cases, p.Case) {
			cases = append(cases, p.Case)
		}
	}
	slices.SortStableFunc(places, func(a, b result.Place) int {
		return slices.Index(cases, a.Case) - slices.Index(cases, b.Case)
	})
	return places
}

// number writes f with the digits that a measurement is good for.
func number(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return ""
	case a >= 100:
		return thousands(f)
	case a >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case a >= 0.1 || a == 0:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}

// thousands writes a whole number with commas.
func thousands(f float64) string {
	digits := strconv.FormatFloat(math.Abs(f), 'f', 0, 64)
	var b strings.Builder
	if f < 0 {
		b.WriteByte('-')
	}
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// gaps returns a line for each measurement that is missing.
func gaps(t *result.Table) []string {
	var lines []string
	for _, g := range t.Gaps {
		word := "missing"
		if g.Failed {
			word = "FAILED"
		}
		lines = append(lines, fmt.Sprintf("%s: %s: %s", word, g.Place, strings.Join(strings.Fields(g.Reason), " ")))
	}
	return lines
}

// verdicts returns a row for each target: the target, the value, and whether it was met.
func verdicts(t *result.Table) [][]string {
	var rows [][]string
	for _, g := range t.Targets {
		v, ok := t.Judge(g)
		switch {
		case !ok:
			rows = append(rows, []string{g.String(), "", "not measured"})
		case v.Met:
			rows = append(rows, []string{g.String(), number(v.Value), "met"})
		default:
			rows = append(rows, []string{g.String(), number(v.Value), "missed"})
		}
	}
	return rows
}
