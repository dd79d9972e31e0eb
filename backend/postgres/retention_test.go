package postgres_test

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// pruneAll prunes until there is no more to look at.
func pruneAll(t *testing.T, q *postgres.Backend) (removed int) {
	t.Helper()
	for range 1000 {
		n, more, err := q.Prune(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if removed += n; !more {
			return removed
		}
	}
	t.Fatal("Prune never says that there is no more")
	return 0
}

// aged writes jobs that ended and were created so many days ago.
func aged(t *testing.T, db queue.DB, status string, days, n int) {
	t.Helper()
	exec(t, db, `INSERT INTO errand.jobs (kind, status, created_at, updated_at)
		SELECT 'test', $1::text::errand.job_status, now() - $2::int * interval '1 day', now() - $2::int * interval '1 day'
		FROM generate_series(1, $3::int)`, status, days, n)
}

func count(t *testing.T, db queue.DB, table string) int {
	t.Helper()
	return value[int](t, db, `SELECT count(*) FROM errand.`+table)
}

func TestPruneByAge(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	aged(t, db, "dead", 20, 1500) // older than what is pruned, and in its way
	aged(t, db, "completed", 8, 2500)
	aged(t, db, "dead", 31, 100)
	aged(t, db, "pending", 100, 10)
	aged(t, db, "completed", 6, 2000)
	if got := pruneAll(t, q); got != 2600 {
		t.Errorf("pruned %d jobs, want 2600", got)
	}
	if got := count(t, db, "jobs"); got != 3510 {
		t.Errorf("%d jobs left, want 3510", got)
	}
	if got := pruneAll(t, q); got != 0 {
		t.Errorf("pruned %d jobs in the next pass, want 0", got)
	}
	exec(t, db, `UPDATE errand.jobs SET created_at = created_at - interval '2 days', updated_at = updated_at - interval '2 days'`)
	if got := pruneAll(t, q); got != 2000 {
		t.Errorf("pruned %d jobs two days later, want 2000", got)
	}
}

// TestPruneIsBounded: a pass ends soon in a long table with nothing to remove. The next one goes on
// behind it, and dead jobs are found wherever they are.
func TestPruneIsBounded(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: -1, Dead: time.Hour}})
	aged(t, db, "pending", 1, 25_000)
	aged(t, db, "completed", 1, 1500)
	aged(t, db, "dead", 1, 1500)
	var removed []int
	calls := 0
	for range 4 {
		n := 0
		for more := true; more; calls++ {
			var some int
			var err error
			if some, more, err = q.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			n += some
		}
		removed = append(removed, n)
	}
	if want := []int{1500, 0, 1500, 0}; !slices.Equal(removed, want) {
		t.Errorf("removed by pass: %v, want %v: the dead first, and then what completed, behind the 25,000", removed, want)
	}
	if calls > 50 {
		t.Errorf("four passes over 28,000 jobs made %d calls, want at most 10 in a row that remove nothing", calls)
	}
}

// TestPruneOneAtATime: while one process prunes, another does nothing, and does not wait.
func TestPruneOneAtATime(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Dead: -1, Completed: -1}})
	aged(t, db, "dead", 1, 3)
	aged(t, db, "completed", 1, 3)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, `SELECT pg_advisory_xact_lock($1)`, postgres.LockKey("prune", "errand"))
	if removed, more, err := q.Prune(t.Context()); removed != 0 || more || err != nil {
		t.Errorf("beside another: removed %d, more %v, error %v; want 0, false, none", removed, more, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if removed := pruneAll(t, q); removed != 6 {
		t.Errorf("after it: removed %d, want 6", removed)
	}
}

func TestPruneArchives(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: time.Hour, Dead: -1, Archive: true}})
	aged(t, db, "completed", 1, 1200)
	aged(t, db, "dead", 0, 5)
	exec(t, db, `UPDATE errand.jobs SET payload = '[1]', headers = '{}', last_error = 'boom', job_key = id, locked_by = 'w', fence = id,
		started_at = now() - interval '1 s', finished_at = now(), redriven_at = now() - interval '1 h', redrives = id, history = '[{}]'`)
	exec(t, db, `CREATE TABLE before AS SELECT * FROM errand.jobs`)
	if got := pruneAll(t, q); got != 1205 {
		t.Errorf("pruned %d jobs, want 1205", got)
	}
	if got := value[int](t, db, `SELECT count(*) FROM (SELECT * FROM before INTERSECT SELECT * FROM errand.jobs_archive) AS same`); got != 1205 {
		t.Errorf("%d jobs are archived as they were, want 1205", got)
	}
	if jobs, archived := count(t, db, "jobs"), count(t, db, "jobs_archive"); jobs != 0 || archived != 1205 {
		t.Errorf("%d jobs and %d archived, want 0 and 1205", jobs, archived)
	}
}

// TestPruneArchivesAgain: jobs that somebody has put back from the archive do not stop Prune.
func TestPruneArchivesAgain(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Dead: -1, Archive: true}})
	aged(t, db, "dead", 1, 3)
	pruneAll(t, q)
	exec(t, db, `INSERT INTO errand.jobs SELECT * FROM errand.jobs_archive`)
	exec(t, db, `UPDATE errand.jobs SET updated_at = updated_at + interval '1 s' WHERE id = (SELECT min(id) FROM errand.jobs)`)
	if got := pruneAll(t, q); got != 3 {
		t.Errorf("pruned %d jobs that were put back, want 3", got)
	}
	if jobs, archived := count(t, db, "jobs"), count(t, db, "jobs_archive"); jobs != 0 || archived != 4 {
		t.Errorf("%d jobs and %d archived, want 0 and 4: those of the archive, and one that has changed since", jobs, archived)
	}
}

// TestNotKept: with a negative retention settling deletes jobs that are done, and only those.
func TestNotKept(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Retention: queue.Retention{Completed: -1}})
	enqueue(t, q, jobs(3)...)
	held := claim(t, q, 3)
	lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Retry}, queue.Outcome{Job: held[2], Action: queue.Dead})
	if err != nil || len(lost) != 0 {
		t.Fatalf("Settle: lost %v, %v", lost, err)
	}
	if got := value[string](t, db, `SELECT string_agg(status::text, ' ' ORDER BY id) FROM errand.jobs`); got != "pending dead" {
		t.Errorf("left: %s, want pending dead", got)
	}
}

// TestRedriveMany redrives more jobs than fit in a statement, and keys that are taken.
func TestRedriveMany(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	aged(t, db, "dead", 1, 2500)
	exec(t, db, `UPDATE errand.jobs SET job_key = 'same' WHERE id % 100 = 0`)
	n, err := q.Redrive(t.Context(), nil, queue.Selection{Queue: "default"})
	if want := 2500 - 25 + 1; err != nil || n != want {
		t.Errorf("Redrive: %d, %v, want %d: one of the 25 that share a key", n, err, want)
	}
}

// TestCountsOfLongTable: in a table too long to count, live and dead jobs are counted exactly while
// they are few, and completed ones are estimated.
func TestCountsOfLongTable(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	const completed = 40_000
	exec(t, db, `INSERT INTO errand.jobs (kind, status, payload) SELECT 'test', 'completed', to_jsonb(repeat('x', 1000))
		FROM generate_series(1, $1::int)`, completed)
	aged(t, db, "dead", 1, 30)
	aged(t, db, "pending", 1, 12_000)
	exec(t, db, `UPDATE errand.jobs SET queue = 'few' WHERE status = 'pending' AND id % 1000 = 0`)
	if size := value[int64](t, db, `SELECT pg_relation_size('errand.jobs')`); size <= 32<<20 {
		t.Fatalf("the table has only %d bytes: it would be counted row by row", size)
	}
	counts, err := q.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]queue.StatusCount)
	for _, c := range counts {
		got[c.Queue+" "+string(c.Status)] = c
	}
	if c := got["default dead"]; c.Jobs != 30 || !c.Exact {
		t.Errorf("dead: %+v, want exactly 30", c)
	}
	if c := got["few pending"]; c.Jobs != 12 || !c.Exact {
		t.Errorf("pending in the queue few: %+v, want exactly 12", c)
	}
	if c := got["default pending"]; c.Jobs < 10_000 || c.Jobs > 25_000 || c.Exact {
		t.Errorf("pending: %+v, want an estimate of 11,988 that is at least 10,000", c)
	}
	if c := got["default completed"]; c.Jobs < completed*7/10 || c.Jobs > completed*13/10 || c.Exact {
		t.Errorf("completed: %+v, want an estimate of %d", c, completed)
	}
	if len(got) != 4 {
		t.Errorf("got %d counts, want 4: %+v", len(got), counts)
	}
}

// TestAddedColumn: a column that somebody adds to the table breaks no statement, not even a
// prepared one.
func TestAddedColumn(t *testing.T) {
	t.Parallel()
	for _, keep := range []queue.Retention{{Completed: -1, Dead: -1}, {Dead: -1, Archive: true}} {
		db, q := fresh(t, postgres.Options{Retention: keep})
		db.SetMaxOpenConns(1)
		for round := range 2 {
			enqueue(t, q, jobs(2)...)
			claimInTx(t, db, q)
			held := claim(t, q, 1)
			if len(held) != 1 {
				t.Fatalf("round %d: claimed %d jobs, want 1", round, len(held))
			}
			if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0], Action: queue.Dead}); err != nil {
				t.Fatal(err)
			}
			if got := pruneAll(t, q); got == 0 {
				t.Errorf("round %d: pruned nothing, want the dead job", round)
			}
			if round == 0 {
				exec(t, db, `ALTER TABLE errand.jobs ADD COLUMN note text NOT NULL DEFAULT 'n'`)
			}
		}
	}
}

// claimInTx claims and completes one job in a transaction.
func claimInTx(t *testing.T, db *sql.DB, q *postgres.Backend) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	job, err := q.ClaimTx(t.Context(), tx, request(1))
	if err != nil || job == nil || job.Kind != "test" || job.Attempt != 1 {
		t.Fatalf("ClaimTx: got %+v, error %v; want the first attempt of a job", job, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestJobsInSlices: with a filter that no index serves, Jobs looks at a part of a long table and
// says where it stopped, also if it has found nothing.
func TestJobsInSlices(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	aged(t, db, "completed", 1, 3)
	exec(t, db, `UPDATE errand.jobs SET kind = 'rare'`)
	aged(t, db, "completed", 1, 120_000)
	f := queue.Filter{Kind: "rare"}
	var got []int64
	calls := 0
	for more := true; more && calls < 10; more = f.Before != 0 {
		page, next, err := q.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if calls++; calls == 1 && (len(page) != 0 || next == 0) {
			t.Errorf("the first call: got %d jobs and next %d, want none and where it stopped", len(page), next)
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		f.Before = next
	}
	if len(got) != 3 || calls != 3 {
		t.Errorf("got jobs %v in %d calls, want 3 in 3", got, calls)
	}
	page, next, err := q.Jobs(t.Context(), queue.Filter{Limit: 2, Kind: "test"})
	if err != nil || len(page) != 2 || next != page[1].ID {
		t.Errorf("a full page: got %d jobs, next %d, error %v; want 2 and the last one's ID", len(page), next, err)
	}
}
