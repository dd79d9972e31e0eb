package sqlkit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/errandhq/errand/queue"
)

// TestByWorker: jobs are grouped by worker and sorted by id, a job of an earlier claim is stale,
// and the caller's slice stays as it is.
func TestByWorker(t *testing.T) {
	job := func(worker string, id, fence int64) *queue.Job {
		return &queue.Job{Worker: worker, ID: id, Fence: fence}
	}
	a1, a2, a3, b1 := job("a", 1, 5), job("a", 2, 5), job("a", 3, 4), job("b", 1, 6)
	again := job("a", 2, 7) // a later claim of a2
	for _, c := range []struct {
		items, sorted, stale []*queue.Job
	}{
		{},
		{items: []*queue.Job{a1, a2, a3, b1}, sorted: []*queue.Job{a1, a2, a3, b1}},
		{items: []*queue.Job{b1, a3, a1, a2}, sorted: []*queue.Job{a1, a2, a3, b1}},
		{items: []*queue.Job{a1, a2, again, a3}, sorted: []*queue.Job{a1, again, a3}, stale: []*queue.Job{a2}},
		{items: []*queue.Job{again, b1, a2}, sorted: []*queue.Job{again, b1}, stale: []*queue.Job{a2}},
	} {
		given := slices.Clone(c.items)
		groups, stale := ByWorker(given, func(j *queue.Job) *queue.Job { return j })
		var all []*queue.Job
		var workers []string
		for _, g := range groups {
			workers = append(workers, g.Worker)
			for j := range g.Jobs() {
				if all = append(all, j); j.Worker != g.Worker {
					t.Errorf("job %d of worker %s is in the group of %s", j.ID, j.Worker, g.Worker)
				}
			}
		}
		what := fmt.Sprintf("of %d items", len(c.items))
		if !slices.Equal(all, c.sorted) || !slices.Equal(stale, c.stale) || !slices.Equal(given, c.items) {
			t.Errorf("%s: got %v, stale %v, items %v", what, all, stale, given)
		}
		if !slices.Equal(slices.Compact(slices.Clone(workers)), workers) {
			t.Errorf("%s: groups of %v, want one a worker", what, workers)
		}
	}
}
