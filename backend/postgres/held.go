package postgres

import "github.com/errandhq/errand/backend/internal/sqlkit"

// arraysOf returns the ids of the jobs, in the order in which rows are locked, and the fence of
// each. A statement names each job by id, fence and worker.
func arraysOf[T any](h sqlkit.Held[T]) (ids, fences string) {
	id, fence := numbers(len(h.Items)), numbers(len(h.Items))
	for job := range h.Jobs() {
		id.int(job.ID)
		fence.int(job.Fence)
	}
	return id.String(), fence.String()
}
