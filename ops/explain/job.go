package explain

import (
	"context"
	"database/sql"

	"github.com/errandhq/errand/queue"
)

// readJob reads the job with that ID, if there is one.
func readJob(ctx context.Context, q *inquiry, id int64) error {
	r, ok, err := q.Inspector.Job(ctx, id)
	if ok {
		q.job = &r
	}
	return err
}

// isLive reports whether the job has its key for itself.
func isLive(r queue.Record) bool {
	return r.Status == queue.StatusPending || r.Status == queue.StatusRunning || r.Status == queue.StatusHeld
}

// listLiveKeys returns the IDs of the live jobs that have the key in the queue, "" for any queue.
// There are none, too, if this is not known.
func listLiveKeys(ctx context.Context, q *inquiry, name, key string) (ids []int64, err error) {
	if q.Server != nil {
		err = q.Server.Rows(ctx, "live_key", func(r *sql.Rows) error {
			var id int64
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		}, key, name)
		_, err = q.tryOrNote(ctx, "which live job has the key", err)
		return ids, err
	}
	_, err = q.list(ctx, queue.Filter{Queue: name, Key: key}, func(r queue.Record) bool {
		if isLive(r) {
			ids = append(ids, r.ID)
		}
		return true
	})
	return ids, err
}
