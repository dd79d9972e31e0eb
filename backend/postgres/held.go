package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/errandhq/errand/queue"
)

// held are things about jobs that one worker holds, which a statement names by
// id, fence and worker.
type held[T any] struct {
	items []T
	job   func(T) *queue.Job
}

// byWorker groups items by the worker that holds their job, and sorts each group
// by id, the order in which rows are locked.
func byWorker[T any](items []T, job func(T) *queue.Job) map[string]held[T] {
	if len(items) == 0 {
		return nil
	}
	groups := make(map[string]held[T], 1)
	for _, it := range items {
		g := groups[job(it).Worker]
		groups[job(it).Worker] = held[T]{append(g.items, it), job}
	}
	for _, g := range groups {
		slices.SortFunc(g.items, func(a, b T) int { return cmp.Compare(job(a).ID, job(b).ID) })
	}
	return groups
}

// arrays are the ids and the distinct fences. One claim has one fence, so the
// second is short.
func (h held[T]) arrays() (ids, fences string) {
	var id array
	seen := make([]int64, 0, len(h.items))
	for _, it := range h.items {
		j := h.job(it)
		id.int(j.ID)
		seen = append(seen, j.Fence)
	}
	slices.Sort(seen)
	return id.String(), intArray(slices.Compact(seen))
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
