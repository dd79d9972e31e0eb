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
	if got, want := trendOf(rising, figure), (trend{first: 15, last: 75, looks: 90}); got != want {
		t.Errorf("trend: got %+v, want %+v", got, want)
	}
	if got, want := tenths(rising, figure), []float64{4, 13, 22, 31, 40, 49, 58, 67, 76, 85}; !slices.Equal(got, want) {
		t.Errorf("tenths: got %v, want %v", got, want)
	}
	if got := trendOf(nil, figure); !math.IsNaN(got.first) || !math.IsNaN(got.last) {
		t.Errorf("trend of nothing: got %+v, want NaN, which is not flat", got)
	}
}
