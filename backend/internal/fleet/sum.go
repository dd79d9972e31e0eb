// Package fleet adds up statistics and orders what workers run, for backends whose database does
// not.
package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// Sum adds up the statistics of single minutes for a filter.
type Sum struct {
	filter queue.StatsFilter
	sums   map[key]*queue.StatsRecord
}

// key tells the records of a filter apart. step is the number of the step since 1970, or 0 for all.
type key struct {
	step        int64
	queue, kind string
}

// NewSum returns an empty Sum.
func NewSum(f queue.StatsFilter) *Sum { return &Sum{f, make(map[key]*queue.StatsRecord)} }

// Add adds the statistics of a minute, queue and kind if the filter chooses them. It changes
// nothing of them.
func (s *Sum) Add(r queue.StatsRecord) {
	f := s.filter
	if f.Queue != "" && f.Queue != r.Queue || f.Kind != "" && f.Kind != r.Kind ||
		!f.From.IsZero() && r.At.Before(f.From) || !f.To.IsZero() && !r.At.Before(f.To) {
		return
	}
	k := key{queue: r.Queue, kind: r.Kind}
	if !f.ByQueue {
		k.queue = ""
	}
	if !f.ByKind {
		k.kind = ""
	}
	if step := int64(f.Step / time.Second); step > 0 {
		k.step = r.At.Unix() / step
		r.At = time.Unix(k.step*step, 0).UTC()
	}
	sum := s.sums[k]
	if sum == nil {
		sum = &queue.StatsRecord{At: r.At, Queue: k.queue, Kind: k.kind}
		s.sums[k] = sum
	}
	if r.At.Before(sum.At) {
		sum.At = r.At
	}
	if !f.Times {
		r.RunTimes, r.WaitTimes = nil, nil
	}
	sum.Add(r.Stats)
}

// Records returns the sums, ordered by At, Queue and Kind.
func (s *Sum) Records() []queue.StatsRecord {
	all := make([]queue.StatsRecord, 0, len(s.sums))
	for _, sum := range s.sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b queue.StatsRecord) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Queue, b.Queue), strings.Compare(a.Kind, b.Kind))
	})
	return all
}
