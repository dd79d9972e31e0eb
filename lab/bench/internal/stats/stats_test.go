package stats

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	ten := []int64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for _, c := range []struct {
		values []int64
		q      float64
		want   int64
	}{
		{nil, 0.5, 0},
		{[]int64{7}, 0.99, 7},
		{ten, 0, 1},
		{ten, 0.5, 5},
		{ten, 0.9, 9},
		{ten, 0.99, 10},
		{ten, 1, 10},
	} {
		if got := Quantile(slices.Clone(c.values), c.q); got != c.want {
			t.Errorf("Quantile(%v, %v): got %d, want %d", c.values, c.q, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := slices.Clone(c.values)
		if got := Median(c.values); got != c.want {
			t.Errorf("Median(%v): got %v, want %v", before, got, c.want)
		}
		if !slices.Equal(c.values, before) {
			t.Errorf("Median changed %v to %v", before, c.values)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("Median of nothing: got %v, want NaN", got)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for i := range 1000 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	got := h.Take(0.5, 0.99)
	for i, want := range []time.Duration{500 * time.Millisecond, 990 * time.Millisecond} {
		if got[i] < want || float64(got[i]) > 1.021*float64(want) {
			t.Errorf("quantile %d of 1 to 1000 ms: got %v, want %v to 2 %% more", i, got[i], want)
		}
	}
	if got := h.Take(0.5)[0]; got != 0 {
		t.Errorf("after Take: got %v, want 0", got)
	}
	h.Add(0)
	h.Add(-time.Second)
	h.Add(1000 * time.Hour)
	if got := h.Take(0.01, 1); got[0] > 2 || got[1] < time.Hour {
		t.Errorf("out of range: got %v, want the first and the last bucket", got)
	}
}
