package scenario

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// TestTargetsAreMeasurable: the systems and cases of a target belong to its scenario.
func TestTargetsAreMeasurable(t *testing.T) {
	for _, s := range All {
		if base := cmp.Or(s.Base, result.Baseline); !s.Series && !slices.Contains(s.Systems, base) {
			t.Errorf("%s: %s, which the others are compared with, is none of its systems", s.Name, base)
		}
		for _, g := range s.Targets {
			places := []result.Place{g.Of}
			if g.Over != nil {
				places = append(places, *g.Over)
			}
			for _, p := range places {
				if !slices.Contains(s.Systems, p.System) {
					t.Errorf("%s: %s: %s is none of its systems", s.Name, g, p.System)
				}
				if len(s.Cases) > 0 && !slices.Contains(s.Cases, p.Case) {
					t.Errorf("%s: %s: %q is none of its cases", s.Name, g, p.Case)
				}
			}
		}
		for _, name := range s.Systems {
			peer.Named(name)
		}
		if s.Title == "" || s.Note == "" || len(s.Chart) == 0 {
			t.Errorf("%s: want a title, a note and a chart", s.Name)
		}
	}
}

func TestSoakQuarters(t *testing.T) {
	var samples [][]result.Figure
	for i := range 8 {
		samples = append(samples, []result.Figure{result.NewFigure(result.RSS, float64(i))})
	}
	figures := soakFigures(samples, time.Minute)
	want := []result.Figure{
		{Case: "at 1 min", Metric: result.RSS, Value: 0},
		{Case: earlyCase, Metric: result.RSS, Value: 2.5}, // of 2 and 3
		{Case: lateCase, Metric: result.RSS, Value: 6.5},  // of 6 and 7
	}
	if got := []result.Figure{figures[0], figures[8], figures[9]}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := soakFigures(nil, time.Minute); len(got) != 0 {
		t.Errorf("without a sample: got %v", got)
	}
}

func TestSinglesCasesAreTold(t *testing.T) {
	want := []string{"1 idle", "1 busy", "16 idle", "16 busy", "64 idle", "64 busy"}
	if got := singlesCases(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
