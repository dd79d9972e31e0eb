package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestListStopped: dead jobs are listed newest first, be they few or many. Those of a queue and
// kind are found at once, and for other choices a page looks at a bounded number of jobs.
func TestListStopped(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(jobs int, name, status string) {
		exec(t, db, `INSERT INTO errand.jobs (queue, kind, status) SELECT $1, 'k', $2::text::errand.job_status FROM generate_series(1, $3::integer)`, name, status, jobs)
	}
	// list reads all pages, and returns their jobs' IDs and how many jobs each had.
	list := func(f queue.Filter) (ids []int64, pages []int) {
		t.Helper()
		for {
			jobs, next, err := q.Jobs(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				if j.Status != f.Status || f.Queue != "" && j.Queue != f.Queue {
					t.Fatalf("job %d is %s and of queue %s", j.ID, j.Status, j.Queue)
				}
				ids = append(ids, j.ID)
			}
			pages = append(pages, len(jobs))
			if f.Before = next; next == 0 {
				break
			}
		}
		if !slices.IsSortedFunc(ids, func(a, b int64) int { return int(b - a) }) {
			t.Errorf("not the newest first: %v", ids)
		}
		return ids, pages
	}
	fill(3, "rare", "dead")
	fill(4990, "common", "dead")
	fill(101_000, "common", "completed")
	fill(2, "rare", "dead")
	rare := queue.Filter{Status: queue.StatusDead, Queue: "rare", Limit: 4}
	if ids, pages := list(rare); len(ids) != 5 || !slices.Equal(pages, []int{4, 1}) {
		t.Errorf("few dead jobs: got pages of %v jobs", pages)
	}
	fill(5, "common", "dead")
	for _, kind := range []string{"", "k"} {
		rare.Kind = kind
		if ids, pages := list(rare); len(ids) != 5 || !slices.Equal(pages, []int{4, 1}) {
			t.Errorf("many dead jobs, kind %q: got pages of %v jobs", kind, pages)
		}
	}
	if ids, pages := list(queue.Filter{Status: queue.StatusDead, Queue: "rare", Kind: "none"}); len(ids) != 0 || len(pages) != 1 {
		t.Errorf("a kind that no job has: got pages of %v jobs", pages)
	}
	rare.Bare = true
	if ids, _ := list(rare); len(ids) != 5 {
		t.Errorf("bare: got %d jobs", len(ids))
	}
	if ids, pages := list(queue.Filter{Status: queue.StatusDead, Limit: 1000}); len(ids) != 5000 {
		t.Errorf("all dead jobs: got %d, pages of %v", len(ids), pages)
	}
	grouped := queue.Filter{Status: queue.StatusDead, Group: "g", Limit: 4}
	exec(t, db, `UPDATE errand.jobs SET job_group = 'g' WHERE queue = 'rare'`)
	if ids, pages := list(grouped); len(ids) != 5 || !slices.Equal(pages, []int{4, 1}) {
		t.Errorf("a group of 5,000 dead jobs: got pages of %v jobs", pages)
	}
	fill(50_000, "common", "dead")
	rare.Bare, rare.Kind = false, ""
	if ids, pages := list(rare); len(ids) != 5 || !slices.Equal(pages, []int{4, 1}) {
		t.Errorf("a queue behind 50,000 dead jobs: got pages of %v jobs", pages)
	}
	if ids, pages := list(grouped); len(ids) != 5 || !slices.Equal(pages, []int{0, 4, 1}) {
		t.Errorf("a group behind 50,000 dead jobs: got pages of %v jobs, want one that has looked at these and found none", pages)
	}
	for _, status := range []queue.Status{queue.StatusHeld, queue.StatusCancelled} {
		fill(3, "rare", string(status))
		if ids, _ := list(queue.Filter{Status: status}); len(ids) != 3 {
			t.Errorf("%s: got %d jobs, want 3", status, len(ids))
		}
	}
}

// TestCountsOfManyDead: what is dead is counted if there are few, and estimated if there are many,
// like what is completed.
func TestCountsOfManyDead(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// With payloads of 1,000 bytes the table is too long to be counted row by row.
	exec(t, db, `INSERT INTO errand.jobs (queue, kind, status, payload) SELECT 'default', 'k', (CASE WHEN i % 4 = 0 THEN 'dead'
		WHEN i % 1000 = 1 THEN 'held' ELSE 'completed' END)::errand.job_status, to_jsonb(repeat('x', 1000)) FROM generate_series(1, 60000) AS i`)
	want := map[queue.Status]int64{queue.StatusDead: 15_000, queue.StatusHeld: 60, queue.StatusCompleted: 44_940}
	for range 7 { // the server may plan anew after five times
		counts, err := q.Counts(t.Context())
		if err != nil || len(counts) != len(want) {
			t.Fatalf("got %+v, %v", counts, err)
		}
		for _, c := range counts {
			n := want[c.Status]
			switch {
			case c.Status == queue.StatusHeld && (c.Jobs != n || !c.Exact):
				t.Errorf("got %+v, want exactly %d", c, n)
			case c.Status != queue.StatusHeld && (c.Exact || c.Jobs < n*8/10 || c.Jobs > n*12/10):
				t.Errorf("got %+v, want about %d", c, n)
			}
		}
	}
}

// TestCountsPassOnce: Counts passes once over the index entries of jobs that were claimed before
// the first pending one, although a transaction that was begun before keeps the server from marking
// them.
func TestCountsPassOnce(t *testing.T) {
	db := postgrestest.Open(t)
	if _, err := postgres.New(db, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `INSERT INTO errand.jobs (kind, status) SELECT 'k', 'pending' FROM generate_series(1, 20000)`)
	old, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback()
	exec(t, old, `SELECT 1 FROM errand.jobs LIMIT 1`)
	exec(t, db, `UPDATE errand.jobs SET status = 'completed'`)
	exec(t, db, `INSERT INTO errand.jobs (kind, status) VALUES ('k', 'pending')`)
	pages := func(statement string) (n int) {
		t.Helper()
		rows, err := db.QueryContext(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+statement)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() && n == 0 { // the first line with buffers is that of the whole plan
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			_, hit, _ := strings.Cut(line, "shared hit=")
			_, _ = fmt.Sscanf(hit, "%d", &n)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	once := pages(`SELECT queue FROM errand.jobs WHERE status = 'pending' ORDER BY queue, priority, scheduled_at, id LIMIT 1`)
	if counts := pages(strings.ReplaceAll(postgres.Statement("count_sample"), "$1", "0.001")); once < 500 || counts > once*3/2 {
		t.Errorf("Counts read %d pages, and one pass over the entries %d", counts, once)
	}
}
