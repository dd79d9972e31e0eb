package queue

import (
	"math/bits"
	"time"
)

// MaxBuckets is how many buckets a [Histogram] has at most.
const MaxBuckets = 28

// Histogram counts durations in buckets. Bucket 0 has the durations below a millisecond, and bucket
// n the durations from 2^(n-1) to below 2^n milliseconds; the last of [MaxBuckets] has all from
// 18.6 hours on. Empty buckets at the end are left out, so nil has no duration.
type Histogram []int64

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 0)/time.Millisecond)), MaxBuckets-1)
}

// bucketStart returns the lowest duration of a bucket.
func bucketStart(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	return time.Millisecond << (n - 1)
}

// with returns h with one more duration. It may change h.
func (h Histogram) with(d time.Duration) Histogram {
	n := bucketOf(d)
	for len(h) <= n {
		h = append(h, 0)
	}
	h[n]++
	return h
}

// Add returns h with the counts of other added. It may change h.
func (h Histogram) Add(other Histogram) Histogram {
	for len(h) < len(other) {
		h = append(h, 0)
	}
	for i, n := range other {
		h[i] += n
	}
	return h
}

// Count returns how many durations there are.
func (h Histogram) Count() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile returns about the duration that the share q of all durations do not exceed: 0.5 for the
// median, 0.99 for the 99th percentile. It lies in the right bucket, so it is wrong by a factor of
// two at most. In the last bucket it is the lowest duration. It returns 0 if there are no
// durations.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := min(max(q, 0), 1) * float64(h.Count())
	below := 0.0
	for i, n := range h {
		if n > 0 && below+float64(n) >= rank {
			start := bucketStart(i)
			if i >= MaxBuckets-1 {
				return start
			}
			return start + time.Duration(float64(bucketStart(i+1)-start)*max(rank-below, 0)/float64(n))
		}
		below += float64(n)
	}
	return 0
}
