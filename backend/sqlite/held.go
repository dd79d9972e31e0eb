package sqlite

import (
	"cmp"
	"slices"

	"github.com/errandhq/errand/queue"
)

// claimed names a claim: what it took has its fence, and is its worker's.
type claimed struct {
	worker string
	fence  int64
}

// group are things about jobs that one claim took, sorted by id. A statement names each by
// id, fence and worker.
type group[T any] struct {
	claimed
	items []T
	job   func(T) *queue.Job
}

// byClaim groups items by the claim that took their job. Where a worker brings one job
// twice, from two claims, it can only hold what the later claim drew, the higher fence: the
// other is stale.
func byClaim[T any](items []T, job func(T) *queue.Job) (groups []group[T], stale []*queue.Job) {
	sorted := slices.SortedStableFunc(slices.Values(items), func(a, b T) int {
		j, k := job(a), job(b)
		return cmp.Or(cmp.Compare(j.ID, k.ID), cmp.Compare(j.Worker, k.Worker), cmp.Compare(j.Fence, k.Fence))
	})
	at := make(map[claimed]int)
	for i, it := range sorted {
		j := job(it)
		if i+1 < len(sorted) && job(sorted[i+1]).ID == j.ID && job(sorted[i+1]).Worker == j.Worker {
			stale = append(stale, j)
			continue
		}
		by := claimed{j.Worker, j.Fence}
		n, ok := at[by]
		if !ok {
			n = len(groups)
			at[by] = n
			groups = append(groups, group[T]{claimed: by, job: job})
		}
		groups[n].items = append(groups[n].items, it)
	}
	return groups, stale
}

// ids is the JSON array of the jobs' ids.
func (g group[T]) ids() string {
	var l list
	for _, it := range g.items {
		l.int(g.job(it).ID)
	}
	return l.String()
}

// without are the jobs that have none of the ids.
func (g group[T]) without(ids []int64) (jobs []*queue.Job) {
	slices.Sort(ids)
	for _, it := range g.items {
		if _, ok := slices.BinarySearch(ids, g.job(it).ID); !ok {
			jobs = append(jobs, g.job(it))
		}
	}
	return jobs
}

// split separates the items for which ok is true from the others. Either group is left out
// where it would be empty.
func (g group[T]) split(ok func(T) bool) (yes, no []group[T]) {
	y, n := group[T]{claimed: g.claimed, job: g.job}, group[T]{claimed: g.claimed, job: g.job}
	for _, it := range g.items {
		if ok(it) {
			y.items = append(y.items, it)
		} else {
			n.items = append(n.items, it)
		}
	}
	if len(y.items) > 0 {
		yes = append(yes, y)
	}
	if len(n.items) > 0 {
		no = append(no, n)
	}
	return yes, no
}
