package sqlkit

import (
	"cmp"
	"iter"
	"slices"

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
// fence. The job of the earlier claim is stale.
func ByWorker[T any](items []T, job func(T) *queue.Job) (groups []Held[T], stale []*queue.Job) {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int {
		j, k := job(a), job(b)
		return cmp.Or(cmp.Compare(j.Worker, k.Worker), cmp.Compare(j.ID, k.ID), cmp.Compare(j.Fence, k.Fence))
	})
	from, n := 0, 0 // where the group begins, and how many items were kept
	for i, it := range sorted {
		j := job(it)
		last := i+1 == len(sorted) || job(sorted[i+1]).Worker != j.Worker
		if !last && job(sorted[i+1]).ID == j.ID {
			stale = append(stale, j)
			continue
		}
		sorted[n] = it
		n++
		if last {
			groups = append(groups, Held[T]{j.Worker, sorted[from:n:n], job})
			from = n
		}
	}
	return groups, stale
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
