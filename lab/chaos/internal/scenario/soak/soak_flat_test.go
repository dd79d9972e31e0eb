package soak

import (
	"math"
	"slices"
	"testing"
)

func TestTrend(t *testing.T) {
	var rising []int
	for i := range 90 {
		rising = append(rising, i)
	}
	figure := func(v int) float64 { return float64(v) }
	if got, want := trendOf(rising, figure), (trend{thirds: [3]float64{15, 45, 75}, looks: 90}); got != want {
		t.Errorf("trend: got %+v, want %+v", got, want)
	}
	if got, want := tenths(rising, figure), []float64{4, 13, 22, 31, 40, 49, 58, 67, 76, 85}; !slices.Equal(got, want) {
		t.Errorf("tenths: got %v, want %v", got, want)
	}
	if got := trendOf(nil, figure); !math.IsNaN(got.thirds[0]) || !math.IsNaN(got.thirds[2]) || got.sinceFirst(1).flat() || tableLevel(got).flat() {
		t.Errorf("trend of nothing: got %+v, want NaN, which is not flat", got)
	}
}

// TestTableLevel: the table may grow until the first large faults have passed, and not later.
func TestTableLevel(t *testing.T) {
	const looks = 90
	step := func(at int) func(int) float64 {
		return func(i int) float64 {
			if i < at {
				return 8
			}
			return 18
		}
	}
	for name, c := range map[string]struct {
		size func(look int) float64 // MiB
		flat bool
	}{
		"constant":                      {func(int) float64 { return 8 }, true},
		"a step in the first third":     {step(looks / 5), true},
		"steps in the first two fifths": {func(i int) float64 { return min(8+5*float64(i/18), 18) }, true},
		"a step in the last third":      {step(looks * 7 / 10), false},
		"linear growth":                 {func(i int) float64 { return 8 + 18*float64(i)/looks }, false},
		"a slow start, then growth":     {func(i int) float64 { return max(8, 8+float64(i-30)/4) }, false},
	} {
		var list []float64
		for i := range looks {
			list = append(list, c.size(i))
		}
		trend := trendOf(list, func(v float64) float64 { return v })
		if got := tableLevel(trend).flat(); got != c.flat {
			t.Errorf("%s, thirds of %v: got flat %v, want %v", name, trend.thirds, got, c.flat)
		}
	}
	early := trendOf([]int{8, 8, 8, 18, 18, 18, 18, 18, 18}, func(v int) float64 { return float64(v) })
	if early.sinceFirst(1).flat() {
		t.Error("heap with a step after the first third: got flat, want not flat")
	}
}
