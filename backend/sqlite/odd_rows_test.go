package sqlite_test

import (
	"math"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/internal/dbtest"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestListOddIDs: jobs whose IDs errand would not have written are listed, and the pages end behind
// the last one. Without a queue there is no job: the table refuses it.
func TestListOddIDs(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	ids := []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, 2, math.MaxInt64 - 1, math.MaxInt64}
	for _, id := range ids {
		execute(t, db, `INSERT INTO errand_jobs (id, kind, status) VALUES (?, 'k', 'dead')`, id)
	}
	dbtest.IDs(t, q, ids...)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO errand_jobs (queue) VALUES ('')`); err == nil {
		t.Error("the table has a job without a queue")
	}
}

// TestListOddSlices: a list that looks at a bounded number of jobs goes on below the ID 0.
func TestListOddSlices(t *testing.T) {
	extent.Long(t)
	db, q := fresh(t, drivers[0], sqlite.Options{})
	execute(t, db, `WITH RECURSIVE n (i) AS (VALUES (-120000) UNION ALL SELECT i + 1 FROM n WHERE i < 49999)
		INSERT INTO errand_jobs (id, kind, status) SELECT i, iif(i % 7001 = 0, 'rare', 'k'), 'completed' FROM n`)
	dbtest.Rare(t, q, 49999, -120000, 7001)
}

// TestListBounds: bounds need not be whole microseconds: a job is at or after a bound, or before
// it.
func TestListBounds(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		first := time.Date(2026, 1, 31, 23, 59, 59, 999998000, time.UTC)
		for id := range int64(4) {
			execute(t, db, `INSERT INTO errand_jobs (id, status, created_at, scheduled_at, updated_at, finished_at)
				VALUES (?1, 'dead', ?2, ?2, ?2, ?2)`, id+1, first.UnixMicro()+id)
		}
		dbtest.Bounds(t, q, first, 4)
	})
}

// TestListFinishedLate: a finished_at after updated_at, or before the job was due, hides no job.
func TestListFinishedLate(t *testing.T) {
	extent.Long(t)
	db, q := fresh(t, drivers[0], sqlite.Options{})
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	execute(t, db, `WITH s (status) AS (VALUES ('dead'), ('cancelled'), ('completed')), due (due) AS (VALUES (0), (3), (6)),
			updated (updated) AS (VALUES (1), (3), (5), (7)), finished (finished) AS (VALUES (-1), (1), (3), (5), (7), (9), (1e12), (NULL))
		INSERT INTO errand_jobs (kind, status, created_at, scheduled_at, updated_at, finished_at)
		SELECT status, status, ?1, ?1 + due * 1000000, ?1 + updated * 1000000, CAST(?1 + finished * 1000000 AS INTEGER)
		FROM s, due, updated, finished`, first.UnixMicro())
	dbtest.Finished(t, q, first.Add(-2*time.Second), first.Add(10*time.Second))
}

// TestListBehindOthers: a list of jobs with an indexed status looks at a bounded number of them.
func TestListBehindOthers(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	execute(t, db, `WITH RECURSIVE n (i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i <= 60000)
		INSERT INTO errand_jobs (id, queue, kind) SELECT i, 'default', 'k' FROM n`)
	execute(t, db, `INSERT INTO errand_jobs (id, queue, kind, job_key) VALUES (1, 'default', 'rare', 'rare')`)
	for _, status := range []queue.Status{queue.StatusPending, queue.StatusDead} {
		execute(t, db, `UPDATE errand_jobs SET status = '`+string(status)+`'`)
		dbtest.Behind(t, q, status, 1)
	}
}
