package postgres_test

import (
	"math"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/internal/dbtest"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestListOddIDs: jobs whose IDs or queues errand would not have written are listed, and the pages
// end behind the last one.
func TestListOddIDs(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	ids := []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, 2, math.MaxInt64 - 1, math.MaxInt64}
	for _, id := range ids {
		exec(t, db, `INSERT INTO errand.jobs (id, queue, kind, status) VALUES ($1, '', 'k', 'dead')`, id)
	}
	dbtest.IDs(t, q, ids...)
}

// TestListOddSlices: a list that looks at a bounded number of jobs goes on below the ID 0.
func TestListOddSlices(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `INSERT INTO errand.jobs (id, queue, kind, status) SELECT i, '', CASE WHEN i % 7001 = 0 THEN 'rare' ELSE 'k' END, 'completed'
		FROM generate_series(-120000, 49999) AS i`)
	dbtest.Rare(t, q, 49999, -120000, 7001)
}

// TestListBounds: bounds need not be whole microseconds: a job is at or after a bound, or before
// it.
func TestListBounds(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	dsn := postgrestest.DSN(t)
	first := time.Date(2026, 1, 31, 23, 59, 59, 999998000, time.UTC)
	for i, w := range theseWays {
		db, _ := w.open(t, dsn)
		if i == 0 {
			exec(t, db, `INSERT INTO errand.jobs (id, status, created_at, scheduled_at, updated_at, finished_at)
				SELECT i, 'dead', at, at, at, at FROM generate_series(1, 4) AS i, LATERAL (VALUES ($1::timestamptz + (i - 1) * interval '1 microsecond')) AS v(at)`, first)
		}
		dbtest.Bounds(t, backend(t, db, postgres.Options{}), first, 4)
	}
}

// TestListFinishedLate: a finished_at after updated_at, or before the job was due, hides no job.
func TestListFinishedLate(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	exec(t, db, `INSERT INTO errand.jobs (kind, status, created_at, scheduled_at, updated_at, finished_at)
		SELECT s, s::errand.job_status, $1, $1::timestamptz + due * interval '1 second', $1::timestamptz + updated * interval '1 second',
			CASE WHEN finished < 8 THEN $1::timestamptz + finished * interval '1 second' WHEN finished = 8 THEN 'infinity' END
		FROM unnest('{dead,cancelled,completed}'::text[]) AS s, generate_series(0, 6, 3) AS due, generate_series(1, 7, 2) AS updated,
			generate_series(-1, 9, 2) AS finished`, first)
	dbtest.Finished(t, q, first.Add(-2*time.Second), first.Add(10*time.Second))
}

// TestListInfinite: times that are infinite, or beyond what drivers can read, fail no page, and
// each job is on one side of a bound.
func TestListInfinite(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db, _ := ways[0].open(t, dsn)
	dropChecks(t, db)
	ends := []string{"infinity", "-infinity", "294276-12-31Z", "4713-01-01Z BC"}
	columns := []string{"scheduled_at", "created_at", "updated_at", "locked_at", "locked_until", "started_at", "finished_at", "redriven_at", "cancel_at"}
	for _, column := range columns {
		for _, at := range ends {
			exec(t, db, `INSERT INTO errand.jobs (kind, status, `+column+`) SELECT 'k', s, $1::text::timestamptz FROM unnest(enum_range(NULL::errand.job_status)) AS s`, at)
		}
	}
	each := len(columns) * len(ends) // jobs of a status
	for _, w := range theseWays {
		db, _ := w.open(t, dsn)
		q := backend(t, db, postgres.Options{})
		count := func(f queue.Filter) int { return len(dbtest.Pages(t, q, f)) }
		if n := count(queue.Filter{Limit: 7}); n != 7*each {
			t.Errorf("%s: got %d jobs, want %d", w.name, n, 7*each)
		}
		count(queue.Filter{Expired: true})
		count(queue.Filter{RunningFor: time.Second})
		count(queue.Filter{RunningFor: math.MaxInt64})
		for _, status := range []queue.Status{queue.StatusDead, queue.StatusCancelled, queue.StatusCompleted} {
			for _, at := range []time.Time{time.Unix(1, 0), time.Now().Add(-time.Hour), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)} {
				created := count(queue.Filter{Status: status, CreatedFrom: at}) + count(queue.Filter{Status: status, CreatedTo: at})
				finished := count(queue.Filter{Status: status, FinishedFrom: at}) + count(queue.Filter{Status: status, FinishedTo: at})
				if created != each || finished != each {
					t.Errorf("%s: %s before and after %v: created %d, finished %d, want %d", w.name, status, at, created, finished, each)
				}
			}
		}
	}
}

// TestListBehindPending: a list of pending jobs looks at a bounded number of them.
func TestListBehindPending(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	exec(t, db, `INSERT INTO errand.jobs (id, kind, job_key) VALUES (1, 'rare', 'rare')`)
	exec(t, db, `INSERT INTO errand.jobs (id, kind) SELECT i, 'k' FROM generate_series(2, 60001) AS i`)
	dbtest.Behind(t, q, queue.StatusPending, 1)
}
