package sqlkit

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/errandhq/errand/queue"
)

// Held groups what a caller presents of one worker: jobs that the worker holds, or their outcomes.
// Items are sorted by the jobs' ids.
type Held[T any] struct {
	Worker string
	Items  []T
	job    func(T) *queue.Job
}

// ByWorker groups items by the worker that holds their job, in the order of the workers' names. If
// a worker presents one job from two claims, it can only hold the later claim, which has the higher
// fence. The job of the earlier claim is stale. The groups may share memory with items, which
// ByWorker does not change: a worker presents its jobs sorted already.
func ByWorker[T any](items []T, job func(T) *queue.Job) (groups []Held[T], stale []*queue.Job) {
	if !isSorted(items, job) {
		items, stale = sorted(items, job)
	}
	for len(items) > 0 {
		worker, n := job(items[0]).Worker, 1
		for n < len(items) && job(items[n]).Worker == worker {
			n++
		}
		groups = append(groups, Held[T]{worker, items[:n:n], job})
		items = items[n:]
	}
	return groups, stale
}

// isSorted reports whether items are in the order of their jobs' workers and ids, each job once.
func isSorted[T any](items []T, job func(T) *queue.Job) bool {
	for i := 1; i < len(items); i++ {
		if compareHeld(job(items[i-1]), job(items[i])) >= 0 {
			return false
		}
	}
	return true
}

// sorted returns items as isSorted demands, and the jobs that are stale.
func sorted[T any](items []T, job func(T) *queue.Job) (kept []T, stale []*queue.Job) {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b T) int {
		j, k := job(a), job(b)
		return cmp.Or(compareHeld(j, k), cmp.Compare(j.Fence, k.Fence))
	})
	kept = items[:0]
	for i, it := range items {
		if i+1 < len(items) && compareHeld(job(it), job(items[i+1])) == 0 {
			stale = append(stale, job(it))
		} else {
			kept = append(kept, it)
		}
	}
	return kept, stale
}

// compareHeld compares jobs by worker and id.
func compareHeld(a, b *queue.Job) int {
	if a.Worker != b.Worker {
		return strings.Compare(a.Worker, b.Worker)
	}
	return cmp.Compare(a.ID, b.ID)
}

// Jobs returns the jobs of the items, in their order.
func (h Held[T]) Jobs() iter.Seq[*queue.Job] {
	return func(yield func(*queue.Job) bool) {
		for _, it := range h.Items {
			if !yield(h.job(it)) {
				return
			}
		}
	}
}

// Split separates the items for which match is true from the others.
func (h Held[T]) Split(match func(T) bool) (yes, no Held[T]) {
	yes, no = Held[T]{h.Worker, nil, h.job}, Held[T]{h.Worker, nil, h.job}
	for _, it := range h.Items {
		if match(it) {
			yes.Items = append(yes.Items, it)
		} else {
			no.Items = append(no.Items, it)
		}
	}
	return yes, no
}

// With returns the jobs that have one of the ids, which With sorts.
func (h Held[T]) With(ids []int64) (jobs []*queue.Job) {
	if len(ids) == 0 {
		return nil
	}
	return h.among(ids, true)
}

// Without returns the jobs that have none of the ids, which Without sorts.
func (h Held[T]) Without(ids []int64) (jobs []*queue.Job) { return h.among(ids, false) }

func (h Held[T]) among(ids []int64, want bool) (jobs []*queue.Job) {
	slices.Sort(ids)
	for job := range h.Jobs() {
		if _, found := slices.BinarySearch(ids, job.ID); found == want {
			jobs = append(jobs, job)
		}
	}
	return jobs
}
