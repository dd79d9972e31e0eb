package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/errandhq/errand/queue"
)

// held are things about jobs that one worker says it holds, sorted by id, which
// is the order in which rows are locked. A statement names each by id, fence
// and worker.
type held[T any] struct {
	items []T
	job   func(T) *queue.Job
}

// byWorker groups items by the worker that holds their job. Where a worker brings
// one job twice, from two claims, it can only hold what the later claim drew, the
// higher fence: the other is stale.
func byWorker[T any](items []T, job func(T) *queue.Job) (groups map[string]held[T], stale []*queue.Job) {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int {
		j, k := job(a), job(b)
		return cmp.Or(cmp.Compare(j.Worker, k.Worker), cmp.Compare(j.ID, k.ID), cmp.Compare(j.Fence, k.Fence))
	})
	groups = make(map[string]held[T], 1)
	from, n := 0, 0 // where the group begins, and how many have been kept
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
			groups[j.Worker] = held[T]{sorted[from:n:n], job}
			from = n
		}
	}
	return groups, stale
}

// only are those of the held for which ok is true.
func (h held[T]) only(ok func(T) bool) held[T] {
	return held[T]{slices.DeleteFunc(slices.Clone(h.items), func(it T) bool { return !ok(it) }), h.job}
}

// arrays are the ids in their order, and the fence of each.
func (h held[T]) arrays() (ids, fences string) {
	id, fence := numbers(len(h.items)), numbers(len(h.items))
	for _, it := range h.items {
		id.int(h.job(it).ID)
		fence.int(h.job(it).Fence)
	}
	return id.String(), fence.String()
}

// withIDs are the jobs that have one of the ids.
func (h held[T]) withIDs(ids []int64) (jobs []*queue.Job) {
	slices.Sort(ids)
	for _, it := range h.items {
		if _, ok := slices.BinarySearch(ids, h.job(it).ID); ok {
			jobs = append(jobs, h.job(it))
		}
	}
	return jobs
}

// queryIDs reads a column of ids.
func queryIDs(ctx context.Context, db queue.DB, query string, args ...any) (ids []int64, err error) {
	err = each(ctx, db, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, args...)
	return ids, err
}
