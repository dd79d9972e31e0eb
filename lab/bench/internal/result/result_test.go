package result

import (
	"math"
	"testing"
)

func at(name, system string) Place { return Place{Case: name, System: system} }

// filled returns a table of two rounds. errand has 100 and then 300. The peer has half of that and
// then a tenth, and misses errand's third round.
func filled() *Table {
	t := &Table{Scenario: "drain"}
	for round, v := range []float64{100, 300, 200} {
		t.Add(round, "errand", Figure{Metric: Throughput, Value: v})
	}
	t.Add(0, "peer", Figure{Metric: Throughput, Value: 50})
	t.Add(1, "peer", Figure{Metric: Throughput, Value: 30})
	t.Add(1, "late", Figure{Metric: Throughput, Value: 3})
	return t
}

func TestRow(t *testing.T) {
	table := filled()
	for _, c := range []struct {
		system           string
		median, min, max float64
		ratio            float64
	}{
		{"errand", 200, 100, 300, 1},
		{"peer", 40, 30, 50, 0.3}, // of 0.5 and 0.1; the ratio of the medians would be 0.2
		{"late", 3, 3, 3, 0.01},   // measured only in the second round
	} {
		row := table.Row(at("", c.system), Throughput)
		if row.Median() != c.median || row.Min() != c.min || row.Max() != c.max {
			t.Errorf("%s: got %v [%v, %v], want %v [%v, %v]", c.system, row.Median(), row.Min(), row.Max(), c.median, c.min, c.max)
		}
		ratio, ok := table.RatioToBaseline(row)
		if !ok || math.Abs(ratio-c.ratio) > 1e-9 {
			t.Errorf("%s: ratio: got %v, %v, want %v", c.system, ratio, ok, c.ratio)
		}
	}
	if row := table.Row(at("", "peer"), WAL); row != nil {
		t.Errorf("what was not measured: got %v, want nil", row)
	}
}

func TestRatioOfTheSameCase(t *testing.T) {
	table := &Table{}
	table.Add(0, "errand", Figure{Case: "idle", Metric: P50, Value: 2}, Figure{Case: "busy", Metric: P50, Value: 10})
	table.Add(0, "peer", Figure{Case: "busy", Metric: P50, Value: 5}, Figure{Case: "none", Metric: P50, Value: 5})
	if got, ok := table.RatioToBaseline(table.Row(at("busy", "peer"), P50)); !ok || got != 0.5 {
		t.Errorf("busy: got %v, %v, want 0.5", got, ok)
	}
	if got, ok := table.RatioToBaseline(table.Row(at("none", "peer"), P50)); ok {
		t.Errorf("a case that errand does not have: got %v, want none", got)
	}
}

func TestRatioToABaselineOfTheTables(t *testing.T) {
	table := &Table{Baseline: "own"}
	table.Add(0, "errand", Figure{Metric: P50, Value: 2})
	table.Add(0, "own", Figure{Metric: P50, Value: 4})
	table.Add(0, "peer", Figure{Metric: P50, Value: 8})
	if got, ok := table.RatioToBaseline(table.Row(at("", "peer"), P50)); !ok || got != 2 {
		t.Errorf("got %v, %v, want 2", got, ok)
	}
}

func TestRatioToNothing(t *testing.T) {
	table := &Table{}
	table.Add(0, "errand", Figure{Metric: Commits, Value: 0})
	table.Add(0, "peer", Figure{Metric: Commits, Value: 1})
	if got, ok := table.RatioToBaseline(table.Row(at("", "peer"), Commits)); ok {
		t.Errorf("ratio to 0: got %v, want none", got)
	}
}

func TestJudge(t *testing.T) {
	table := filled()
	over := func(system string) *Place { return &Place{System: system} }
	for _, c := range []struct {
		target Target
		text   string
		value  float64
		met    bool
		ok     bool
	}{
		{Target{Of: at("", "errand"), Over: over("peer"), Metric: Throughput, Factor: 5}, "errand throughput ≥ 5 × peer", 6, true, true},
		{Target{Of: at("", "errand"), Over: over("peer"), Metric: Throughput, Factor: 6.5}, "errand throughput ≥ 6.5 × peer", 6, false, true},
		{Target{Of: at("", "errand"), Over: over("peer"), Metric: Throughput, Factor: 6, Most: true}, "errand throughput ≤ 6 × peer", 6, true, true},
		{Target{Of: at("", "errand"), Metric: Throughput, Factor: 150, Most: true}, "errand throughput ≤ 150 jobs/s", 200, false, true},
		{Target{Of: at("", "errand"), Over: over("nobody"), Metric: Throughput, Factor: 5}, "errand throughput ≥ 5 × nobody", 0, false, false},
		{Target{Of: at("", "nobody"), Metric: Throughput, Factor: 5}, "nobody throughput ≥ 5 jobs/s", 0, false, false},
	} {
		if got := c.target.String(); got != c.text {
			t.Errorf("text: got %q, want %q", got, c.text)
		}
		v, ok := table.Judge(c.target)
		if ok != c.ok || ok && (math.Abs(v.Value-c.value) > 1e-9 || v.Met != c.met) {
			t.Errorf("%s: got %+v, %v, want %v, %v, %v", c.text, v, ok, c.value, c.met, c.ok)
		}
	}
}

func TestTargetNamesCases(t *testing.T) {
	for _, c := range []struct {
		target Target
		want   string
	}{
		{Target{Of: at("300/s", "errand"), Metric: P50, Most: true, Factor: 2}, "errand 300/s p50 ≤ 2 ms"},
		{Target{Of: at("drain", "errand"), Metric: Throughput, Factor: 40_000}, "errand drain throughput ≥ 40000 jobs/s"},
		{Target{Of: at("pinned", "errand"), Over: &Place{"free", "errand"}, Metric: Throughput, Factor: 1 / 1.2}, "errand pinned throughput ≥ 0.833 × free"},
		{Target{Of: at("16 idle", "errand"), Over: &Place{"16 idle", "river"}, Metric: Throughput, Factor: 3.5}, "errand 16 idle throughput ≥ 3.5 × river"},
		{Target{Of: at("a", "errand"), Over: &Place{"b", "river"}, Metric: Throughput, Factor: 1}, "errand a throughput ≥ 1 × river b"},
	} {
		if got := c.target.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestMissKeepsOneGapOfAKind(t *testing.T) {
	var table Table
	for range 3 {
		table.Miss(Gap{Place: at("", "asynq"), Reason: "no redis-server"})
	}
	table.Miss(Gap{Place: at("", "asynq"), Reason: "no redis-server", Failed: true})
	if len(table.Gaps) != 2 {
		t.Errorf("gaps: got %v, want 2", table.Gaps)
	}
}

// TestNoValue: a figure without a value, such as a quantile of nothing, is a gap and no row.
func TestNoValue(t *testing.T) {
	var table Table
	table.Add(0, "errand", Figure{Metric: Throughput, Value: math.NaN()}, Figure{Metric: P50, Value: 1})
	want := Gap{Place: at("", "errand"), Reason: "no throughput was measured", Failed: true}
	if len(table.Rows) != 1 || len(table.Gaps) != 1 || table.Gaps[0] != want {
		t.Errorf("got %d rows, gaps %+v, want one row and %+v", len(table.Rows), table.Gaps, want)
	}
}
