// Package stats has the few statistics that the measurements need.
package stats

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Quantile returns the quantile q of the values: the smallest one that is not below a share q of
// them. It sorts the values, and returns 0 if there are none.
func Quantile[T int64 | float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := int(math.Ceil(q * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}

// Median returns the median of the values, or NaN if there are none. It does not change values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Histogram counts durations in buckets that are 2 % wide, in constant memory.
// Its methods may be called concurrently.
type Histogram struct {
	buckets [buckets]atomic.Int64
}

const (
	buckets = 1500 // up to 2.1 hours
	base    = 1.02
)

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	i := int(math.Log(float64(max(d, 1))) / math.Log(base))
	h.buckets[min(i, buckets-1)].Add(1)
}

// Take returns the quantiles qs of what was added since the last Take. Each is at most 2 % too
// high. If nothing was added they are 0.
func (h *Histogram) Take(qs ...float64) []time.Duration {
	var counts [buckets]int64
	var all int64
	for i := range counts {
		counts[i] = h.buckets[i].Swap(0)
		all += counts[i]
	}
	out := make([]time.Duration, len(qs))
	for i, q := range qs {
		out[i] = quantile(counts[:], all, q)
	}
	return out
}

func quantile(counts []int64, all int64, q float64) time.Duration {
	if all == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(q*float64(all))), 1)
	var below int64
	for i, n := range counts {
		if below += n; below >= rank {
			return time.Duration(math.Pow(base, float64(i+1)))
		}
	}
	return 0
}
