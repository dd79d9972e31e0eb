package sqlite_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// pruneAll prunes until there is no more to look at.
func pruneAll(t *testing.T, q *sqlite.Backend) (removed int) {
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
func aged(t testing.TB, db queue.DB, status string, days, n int) {
	t.Helper()
	execute(t, db, `WITH RECURSIVE series (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM series WHERE i < ?3)
		INSERT INTO errand_jobs (kind, status, created_at, updated_at)
		SELECT 'test', ?1, (unixepoch() - ?2 * 86400) * 1000000, (unixepoch() - ?2 * 86400) * 1000000 FROM series`, status, days, n)
}

func TestPruneByAge(t *testing.T) {
	extent.Long(t)
	db, q := fresh(t, drivers[0], sqlite.Options{})
	aged(t, db, "dead", 20, 1500) // older than what is pruned, and in its way
	aged(t, db, "completed", 8, 2500)
	aged(t, db, "dead", 31, 100)
	aged(t, db, "pending", 100, 10)
	aged(t, db, "completed", 6, 2000)
	if got := pruneAll(t, q); got != 2600 {
		t.Errorf("pruned %d jobs, want 2600", got)
	}
	if got := value[int](t, db, `SELECT count(*) FROM errand_jobs`); got != 3510 {
		t.Errorf("%d jobs left, want 3510", got)
	}
	if got := pruneAll(t, q); got != 0 {
		t.Errorf("pruned %d jobs in the next pass, want 0", got)
	}
	execute(t, db, `UPDATE errand_jobs SET created_at = created_at - 2 * 86400000000, updated_at = updated_at - 2 * 86400000000`)
	if got := pruneAll(t, q); got != 2000 {
		t.Errorf("pruned %d jobs two days later, want 2000", got)
	}
}

// TestPruneIsBounded: a pass over a long table in which nothing is over ends soon, and the next one
// goes on behind it.
func TestPruneIsBounded(t *testing.T) {
	extent.Long(t)
	db, q := fresh(t, drivers[0], sqlite.Options{Retention: queue.Retention{Completed: -1, Dead: time.Hour}})
	aged(t, db, "pending", 1, 25_000)
	aged(t, db, "completed", 1, 1500)
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
	if want := []int{0, 0, 1500, 0}; !slices.Equal(removed, want) {
		t.Errorf("removed by pass: %v, want %v", removed, want)
	}
	if calls > 45 {
		t.Errorf("four passes over 26,500 jobs made %d calls, want at most 10 in a row that remove nothing", calls)
	}
}

func TestPruneArchives(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{Retention: queue.Retention{Completed: time.Hour, Dead: -1, Archive: true}})
	aged(t, db, "completed", 1, 1200)
	aged(t, db, "dead", 0, 5)
	execute(t, db, `UPDATE errand_jobs SET payload = '[' || id || ']', headers = '{}', last_error = 'boom', job_key = id, locked_by = 'w', fence = id, priority = -id,
		started_at = id + 1, finished_at = id + 2, redriven_at = id + 3, redrives = id + 4, history = '[{}]'`)
	execute(t, db, `CREATE TABLE before AS SELECT * FROM errand_jobs`)
	if got := pruneAll(t, q); got != 1205 {
		t.Errorf("pruned %d jobs, want 1205", got)
	}
	if got := value[int](t, db, `SELECT count(*) FROM errand_jobs`); got != 0 {
		t.Errorf("%d jobs left, want 0", got)
	}
	if got := value[int](t, db, `SELECT count(*) FROM (SELECT * FROM before INTERSECT SELECT * FROM errand_jobs_archive)`); got != 1205 {
		t.Errorf("%d jobs are archived as they were, want 1205", got)
	}
}

// TestPruneArchivesAgain: jobs that somebody has put back from the archive do not stop Prune.
func TestPruneArchivesAgain(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{Retention: queue.Retention{Dead: -1, Archive: true}})
	aged(t, db, "dead", 1, 3)
	pruneAll(t, q)
	const columns = `id, queue, kind, payload, status, scheduled_at, created_at, updated_at`
	execute(t, db, `INSERT INTO errand_jobs (`+columns+`) SELECT `+columns+` FROM errand_jobs_archive`)
	if got := pruneAll(t, q); got != 3 {
		t.Errorf("pruned %d jobs that were put back, want 3", got)
	}
	if got := value[int](t, db, `SELECT count(*) FROM errand_jobs_archive`); got != 3 {
		t.Errorf("%d jobs archived, want 3", got)
	}
}

// TestAddedColumn: a column that somebody adds to either table does not stop pruning.
func TestAddedColumn(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{Retention: queue.Retention{Completed: -1, Dead: -1, Archive: true}})
	for _, table := range []string{"errand_jobs", "errand_jobs_archive"} {
		aged(t, db, "dead", 1, 3)
		execute(t, db, `ALTER TABLE `+table+` ADD COLUMN note TEXT`)
		if got := pruneAll(t, q); got != 3 {
			t.Errorf("with a column more in %s: pruned %d jobs, want 3", table, got)
		}
	}
}

// TestNotKept: with a negative retention settling deletes what is done, and only that.
func TestNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{Retention: queue.Retention{Completed: -1}})
		enqueue(t, q, jobs(4)...)
		held := claim(t, q, 4)
		settle := func(outcomes ...queue.Outcome) []*queue.Job {
			t.Helper()
			lost, err := q.Settle(t.Context(), nil, outcomes...)
			if err != nil {
				t.Fatal(err)
			}
			return lost
		}
		lost := settle(queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Retry}, queue.Outcome{Job: held[2], Action: queue.Dead})
		if len(lost) != 0 {
			t.Errorf("lost %d jobs, want none", len(lost))
		}
		if lost := settle(queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[3]}); len(lost) != 1 || lost[0] != held[0] {
			t.Errorf("settling one that is gone and another: lost %v, want the one", lost)
		}
		if got := value[string](t, db, `SELECT group_concat(status, ' ') FROM (SELECT status FROM errand_jobs ORDER BY id)`); got != "pending dead" {
			t.Errorf("left: %s, want pending dead", got)
		}
		highest := held[3].ID
		enqueue(t, q, jobs(1)...)
		if got := value[int64](t, db, `SELECT max(id) FROM errand_jobs`); got <= highest {
			t.Errorf("the id %d was given again after its job was deleted", got)
		}
	})
}

// TestRedriveMany redrives more than fit in a transaction, and keys that meet.
func TestRedriveMany(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		aged(t, db, "dead", 1, 2500)
		execute(t, db, `UPDATE errand_jobs SET job_key = 'same' WHERE id % 100 = 0`)
		n, err := q.Redrive(t.Context(), nil, queue.Selection{Queue: "default"})
		if want := 2500 - 25 + 1; err != nil || n != want {
			t.Errorf("Redrive: %d, %v, want %d: one of the 25 that share a key", n, err, want)
		}
	})
}

// TestCountsOfLongTable: beyond what is counted row by row, live and dead jobs are counted exactly
// while they are few, and completed ones estimated.
func TestCountsOfLongTable(t *testing.T) {
	extent.Long(t)
	db, q := fresh(t, drivers[0], sqlite.Options{})
	const completed = 300_000
	aged(t, db, "completed", 1, completed/2)
	aged(t, db, "dead", 1, 30)
	aged(t, db, "pending", 1, 12_000)
	aged(t, db, "completed", 1, completed/2)
	execute(t, db, `UPDATE errand_jobs SET queue = 'few' WHERE status = 'pending' AND id % 1000 = 0`)
	execute(t, db, `UPDATE errand_jobs SET queue = 'half' WHERE status = 'completed' AND id % 2 = 0`)
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
	for _, name := range []string{"default completed", "half completed"} {
		if c := got[name]; c.Jobs < completed/2*9/10 || c.Jobs > completed/2*11/10 || c.Exact {
			t.Errorf("%s: %+v, want an estimate of %d", name, c, completed/2)
		}
	}
	if len(got) != 5 {
		t.Errorf("got %d counts, want 5: %+v", len(got), counts)
	}
}

// TestPagesOfLongTable: a page of what is pending beside many that are not, with and without a
// filter.
func TestPagesOfLongTable(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	aged(t, db, "pending", 1, 5)
	aged(t, db, "completed", 1, 5000)
	for _, f := range []queue.Filter{{Status: queue.StatusPending}, {Status: queue.StatusPending, Kind: "test"}, {Status: queue.StatusPending, Queue: "default", Before: 6}} {
		records, _, err := q.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, r := range records {
			got = append(got, r.ID)
		}
		if fmt.Sprint(got) != "[5 4 3 2 1]" {
			t.Errorf("Jobs(%+v): got %v, want 5 to 1", f, got)
		}
	}
}

// TestJobsInSlices: a filter that no index serves looks at a part of a long table and says how far
// it has looked, also where it has found nothing.
func TestJobsInSlices(t *testing.T) {
	extent.Long(t)
	db, q := fresh(t, drivers[0], sqlite.Options{})
	aged(t, db, "completed", 1, 3)
	execute(t, db, `UPDATE errand_jobs SET kind = 'rare'`)
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
