package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// pin keeps VACUUM from removing any row, until unpin is called.
func pin(t testing.TB, db *sql.DB) (unpin func()) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	value[int](t, tx, "SELECT 1") // which takes the snapshot
	t.Cleanup(func() { tx.Rollback() })
	return func() { tx.Rollback() }
}

// TestClaimsBesideDeadRows: if claims would scan many index entries of dead rows, they start at
// marks. They still find jobs before the marks, miss none, and start at the head again in the end.
func TestClaimsBesideDeadRows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const jobsInAll, urgentEvery = 40_000, 50
	db, q := fresh(t, postgres.Options{})
	unpin := pin(t, db)
	defer unpin()
	for range jobsInAll / 5000 {
		enqueue(t, q, jobs(5000)...)
	}
	seen := make(map[int64]bool)
	take := func(n int) []*queue.Job {
		t.Helper()
		got := claim(t, q, n)
		outcomes := make([]queue.Outcome, len(got))
		for i, j := range got {
			if seen[j.ID] {
				t.Fatalf("job %d was claimed twice", j.ID)
			}
			seen[j.ID] = true
			outcomes[i].Job = j
		}
		if lost, err := q.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) > 0 {
			t.Fatalf("Settle: lost %d, %v", len(lost), err)
		}
		return got
	}

	rationed := 0 // claims after which the next starts at a mark
	for i := 0; len(seen) < jobsInAll; i++ {
		if i%urgentEvery == 0 {
			enqueue(t, q, &queue.Job{Kind: "urgent", Priority: -1})
		}
		if got := take(200); len(got) == 0 {
			t.Fatalf("a claim came back empty, with %d of %d jobs claimed", len(seen), jobsInAll)
		}
		if q.Rationed(request(1)) {
			rationed++
		}
	}
	if rationed == 0 {
		t.Errorf("no claim started at a mark, with %d dead rows", len(seen))
	}
	eventually(t, "the rest is found", func() bool {
		take(200)
		return value[int](t, db, "SELECT count(*) FROM errand.jobs WHERE status <> 'completed'") == 0
	})

	unpin()
	exec(t, db, "VACUUM errand.jobs")
	start := time.Now()
	for q.Rationed(request(1)) {
		enqueue(t, q, jobs(1)...)
		take(1)
		if time.Since(start) > 20*time.Second {
			t.Fatal("claims still start at marks, though no dead rows are left")
		}
	}
}

// TestMarkAfterTheLastJob: if claims become rationed when the queue is empty, they do not scan the
// dead rows of the jobs that were claimed last.
func TestMarkAfterTheLastJob(t *testing.T) {
	const dead, claims = 20_000, 100
	dsn := postgrestest.DSN(t)
	db, _ := ways[0].open(t, dsn)
	closing, _ := ways[0].open(t, dsn)
	unpin := pin(t, db)
	defer unpin()
	exec(t, db, "INSERT INTO errand.jobs (kind) SELECT 'test' FROM generate_series(1, $1::integer)", dead)
	exec(t, db, "DELETE FROM errand.jobs")
	q := backend(t, closing, postgres.Options{})
	enqueue(t, q, jobs(1)...)
	wantClaimed(t, q, request(10), 1)
	eventually(t, "claims are rationed", func() bool {
		wantClaimed(t, q, request(10), 0)
		return q.Rationed(request(10))
	})
	wantClaimed(t, q, request(10), 0)
	before := entriesRead(t, db, closing, 2)
	for range claims {
		wantClaimed(t, q, request(10), 0)
	}
	if each := (entriesRead(t, db, closing, 2) - before) / claims; each > dead/10 {
		t.Errorf("a claim reads %d entries, want at most a tenth of the %d dead ones", each, dead)
	}
}

// TestMarksBesideDeadRows: to look for priorities without a mark, a slow claim does not scan the
// dead rows of those that have one.
func TestMarksBesideDeadRows(t *testing.T) {
	const dead = 20_000
	dsn := postgrestest.DSN(t)
	db, _ := ways[0].open(t, dsn)
	closing, _ := ways[0].open(t, dsn)
	unpin := pin(t, db)
	defer unpin()
	exec(t, db, "INSERT INTO errand.jobs (kind) SELECT 'test' FROM generate_series(1, $1::integer)", dead)
	exec(t, db, "DELETE FROM errand.jobs")
	q := backend(t, closing, postgres.Options{})
	enqueue(t, q, jobs(1)...)
	wantClaimed(t, q, request(10), 1)
	eventually(t, "claims are rationed", func() bool {
		wantClaimed(t, q, request(10), 0)
		return q.Rationed(request(10))
	})
	before := entriesRead(t, db, closing, 2)
	if err := q.AddMarks(t.Context(), request(10)); err != nil {
		t.Fatal(err)
	}
	if n := entriesRead(t, db, closing, 2) - before; n > dead/10 {
		t.Errorf("%d entries were read, want at most a tenth of the %d dead ones", n, dead)
	}
}
