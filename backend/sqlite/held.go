package sqlite

import (
	"cmp"
	"slices"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// claimed holds jobs that one claim took, or the outcomes of such jobs. All have the claim's fence.
// A statement names each job by id, fence and worker.
type claimed[T any] struct {
	sqlkit.Held[T]
	fence int64
}

// byClaim groups items by the claim that took their job. It does not change items.
func byClaim[T any](items []T, job func(T) *queue.Job) (groups []claimed[T], stale []*queue.Job) {
	held, stale := sqlkit.ByWorker(items, job)
	for _, h := range held {
		rest := slices.Clone(h.Items)
		slices.SortStableFunc(rest, func(a, b T) int { return cmp.Compare(job(a).Fence, job(b).Fence) })
		for len(rest) > 0 {
			fence := job(rest[0]).Fence
			n := slices.IndexFunc(rest, func(it T) bool { return job(it).Fence != fence })
			if n < 0 {
				n = len(rest)
			}
			h.Items, rest = rest[:n:n], rest[n:]
			groups = append(groups, claimed[T]{h, fence})
		}
	}
	return groups, stale
}

// idsOf returns the JSON array of the jobs' ids.
func idsOf[T any](c claimed[T]) string {
	var l list
	for job := range c.Jobs() {
		l.int(job.ID)
	}
	return l.String()
}
