package postgres_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestDeleteCompleted: completed jobs, which no index finds, are deleted from all of a long table,
// a part at a time, and while it grows.
func TestDeleteCompleted(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `INSERT INTO errand.jobs (kind, status) SELECT CASE WHEN i % 50000 = 1 THEN 'rare' ELSE 'k' END, 'completed'
		FROM generate_series(1, 210000) i`) // two parts and a bit
	exec(t, db, `INSERT INTO errand.jobs (kind, status) VALUES ('rare', 'pending'), ('rare', 'failed')`)
	exec(t, db, `INSERT INTO errand.results (job_id, output) SELECT id, '1' FROM errand.jobs WHERE kind = 'rare'`)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if _, err := db.ExecContext(t.Context(), `INSERT INTO errand.jobs (kind) VALUES ('new')`); err != nil {
				ended <- err
				return
			}
		}
	}()
	began := time.Now()
	n, err := q.Delete(t.Context(), nil, queue.Selection{Kind: "rare", Status: queue.StatusCompleted})
	if err != nil || n != 5 {
		t.Errorf("Delete of completed jobs: got %d, error %v; want 5", n, err)
	}
	n, err = q.Delete(t.Context(), nil, queue.Selection{Kind: "rare"})
	if err != nil || n != 2 {
		t.Errorf("Delete of the others: got %d, error %v; want 2", n, err)
	}
	t.Logf("two calls beside an enqueuer took %v", time.Since(began))
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left := value[int](t, db, `SELECT count(*) FROM errand.results`); left != 0 {
		t.Errorf("%d results are left, want none", left)
	}
	if left := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'completed'`); left != 210000-5 {
		t.Errorf("%d other jobs are left, want %d", left, 210000-5)
	}
}
