package postgres

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

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
