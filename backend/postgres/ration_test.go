package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

const foreignJobs = 20_000

// behindForeign is a queue with many due jobs of a kind that the request is not for, at the head of
// three priorities, and whose claims are rationed.
func behindForeign(t *testing.T, db *sql.DB) (q *postgres.Backend, req queue.ClaimRequest) {
	t.Helper()
	exec(t, db, `INSERT INTO errand.jobs (kind, priority, scheduled_at)
		SELECT 'foreign', i % 3 * 5 - 5, now() - interval '1 hour' + i * interval '1 ms' FROM generate_series(1, $1::integer) i`, foreignJobs)
	q = backend(t, db, postgres.Options{})
	req = request(10)
	req.Kinds = []string{"test"}
	eventually(t, "claims are rationed", func() bool {
		wantClaimed(t, q, req, 0)
		return q.Rationed(req)
	})
	return q, req
}

// wantClaimed claims, and wants n jobs.
func wantClaimed(t *testing.T, q *postgres.Backend, req queue.ClaimRequest, n int) []*queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != n {
		t.Fatalf("claimed %d jobs, want %d", len(jobs), n)
	}
	return jobs
}

// TestRationedOrder: if many jobs of other kinds stand at the head of the queue, the next claim
// finds new jobs of any priority, in the order of the priorities.
func TestRationedOrder(t *testing.T) {
	db := postgrestest.Open(t)
	q, req := behindForeign(t, db)
	for range 3 {
		wantClaimed(t, q, req, 0)
		for _, priority := range []int32{5, -5, 0, -7, 2, 9} {
			enqueue(t, q, &queue.Job{Kind: "test", Priority: priority})
		}
		var got []int32
		for _, n := range []int{4, 2} {
			limited := req
			limited.Limit = 4
			for _, job := range wantClaimed(t, q, limited, n) {
				got = append(got, job.Priority)
			}
		}
		for i, want := range []int32{-7, -5, 0, 2, 5, 9} {
			if got[i] != want {
				t.Fatalf("claimed the priorities %d, want them in order", got)
			}
		}
	}
	if !q.Rationed(req) {
		t.Error("claims are not rationed any more")
	}
}

// TestRationedLateCommit: the next claim finds a job of a transaction that was open at the last
// claim, however old the transaction is.
func TestRationedLateCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	for name, open := range map[string]time.Duration{"50ms": 50 * time.Millisecond, "1.5s": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			db := postgrestest.Open(t)
			q, req := behindForeign(t, db)
			for _, before := range []bool{true, false} { // a transaction that is older than the first rationed claims, too
				if !before {
					wantClaimed(t, q, req, 0)
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				if err := q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test"}); err != nil {
					t.Fatal(err)
				}
				for end := time.Now().Add(open); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					wantClaimed(t, q, req, 0)
					enqueue(t, q, jobs(3)...)
					wantClaimed(t, q, req, 3)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				wantClaimed(t, q, req, 1)
			}
		})
	}
}

// TestRationedOldJobs: claims find jobs whose due times put them before the marks.
func TestRationedOldJobs(t *testing.T) {
	extent.Long(t)
	t.Parallel() // five seconds pass between two scans if the first finds a job
	db := postgrestest.Open(t)
	q, req := behindForeign(t, db)
	// Claims scan the jobs before the marks in a fiftieth of their time: fewer are scanned sooner.
	exec(t, db, `DELETE FROM errand.jobs WHERE id % 5 > 0`)
	exec(t, db, `VACUUM errand.jobs`)
	wantClaimed(t, q, req, 0)
	if !q.Rationed(req) {
		t.Fatal("claims are not rationed any more")
	}
	wanted := map[int32]bool{-5: true, 0: true, 5: true}
	for priority := range wanted {
		enqueue(t, q, &queue.Job{Kind: "test", Priority: priority, ScheduledAt: time.Now().Add(-time.Hour)})
	}
	eventually(t, "the jobs are found", func() bool {
		jobs, err := q.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs {
			delete(wanted, job.Priority)
		}
		return len(wanted) == 0
	})
}

// TestRationedJobZero: they find one with the ID 0, too, which SQL may give.
func TestRationedJobZero(t *testing.T) {
	db := postgrestest.Open(t)
	q, req := behindForeign(t, db)
	exec(t, db, `INSERT INTO errand.jobs (id, kind, scheduled_at) VALUES (0, 'test', now() - interval '1 day')`)
	eventually(t, "the job is found", func() bool {
		jobs, err := q.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs) == 1
	})
}

// TestRationedEqualDueTimes: jobs of two priorities that are due at the same time keep their own
// marks: a claim takes as many jobs as it may.
func TestRationedEqualDueTimes(t *testing.T) {
	db := postgrestest.Open(t)
	q, req := behindForeign(t, db)
	at := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	for _, c := range []struct {
		priority int32
		jobs     int
	}{{5, 12}, {-3, 10}, {5, 0}} {
		for _, job := range jobs(c.jobs) {
			job.Priority, job.ScheduledAt = c.priority, at
			enqueue(t, q, job)
		}
		eventually(t, "some of the jobs are claimed", func() bool {
			jobs, err := q.Claim(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return len(jobs) > 0
		})
	}
	for range 10 {
		for i, job := range jobs(10) {
			job.Priority = int32(i%2) * 5
			enqueue(t, q, job)
		}
		wantClaimed(t, q, req, 10)
	}
}

// claimUntil claims again and again until done, and once more. It returns the jobs.
func claimUntil(t *testing.T, q *postgres.Backend, req queue.ClaimRequest, done <-chan error) (claimed []*queue.Job) {
	t.Helper()
	for isDone := false; !isDone; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			isDone = true
		default:
		}
		jobs, err := q.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, jobs...)
	}
	return claimed
}

// TestRationedSlowStatement: the next claim finds a job whose statement was under way for long
// before it wrote the job.
func TestRationedSlowStatement(t *testing.T) {
	extent.Long(t)
	db := postgrestest.Open(t)
	q, req := behindForeign(t, db)
	for _, statement := range []string{
		`SELECT errand.enqueue('default', 'test') FROM pg_sleep(0.5)`,
		`DO $$ BEGIN PERFORM pg_sleep(0.5); PERFORM errand.enqueue('default', 'test'); END $$`,
	} {
		done := make(chan error, 1)
		go func() {
			_, err := db.ExecContext(t.Context(), statement)
			done <- err
		}()
		if claimed := len(claimUntil(t, q, req, done)); claimed != 1 {
			t.Errorf("%s: claimed %d jobs right after it, want 1", statement, claimed)
		}
	}
}

// TestRationedKeyWait: the next claim finds a job that waited for a transaction with the same key,
// also if another claim comes between the end of that transaction and the job's own commit.
func TestRationedKeyWait(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	db := postgrestest.Open(t)
	q, req := behindForeign(t, db)
	for round := range 20 {
		n := 1 + round%2 // enqueue_one_keyed.sql and enqueue.sql
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			batch := jobs(n)
			batch[0].Key = "k"
			done <- q.Enqueue(t.Context(), nil, batch...)
		}()
		// Longer than dueMargin.
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			wantClaimed(t, q, req, 0)
		}
		go func() { _ = tx.Rollback() }()
		claimed := claimUntil(t, q, req, done)
		if len(claimed) != n {
			t.Fatalf("round %d: claimed %d jobs by the first claim after their commit, want %d", round, len(claimed), n)
		}
		for _, job := range claimed {
			settle(t, q, queue.Outcome{Job: job})
		}
	}
}

// entriesRead returns how many entries of the index of pending jobs the connections of closing have
// read. It closes them, because the server counts what a connection has read when that ends. It
// waits until that many others are left.
func entriesRead(t *testing.T, db, closing *sql.DB, others int) int {
	t.Helper()
	closing.SetMaxIdleConns(0)
	eventually(t, "the connections have ended", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`) == others
	})
	closing.SetMaxIdleConns(2)
	return value[int](t, db, `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_pending_idx'`)
}

// TestRationedClaimsReadLittle: claims do not scan the jobs at the head of the queue.
func TestRationedClaimsReadLittle(t *testing.T) {
	const claims = 100
	dsn := postgrestest.DSN(t)
	db, _ := ways[0].open(t, dsn)
	closing, _ := ways[0].open(t, dsn)
	q, req := behindForeign(t, closing)
	wantClaimed(t, q, req, 0)
	before := entriesRead(t, db, closing, 1)
	for range claims {
		enqueue(t, q, jobs(1)...)
		wantClaimed(t, q, req, 1)
	}
	if each := (entriesRead(t, db, closing, 1) - before) / claims; each > foreignJobs/10 {
		t.Errorf("a claim reads %d entries, want at most a tenth of the %d that claims pass over", each, foreignJobs)
	}
}

// TestFullRound: the next claim finds a job of a transaction that was open before the first
// rationed claim, however early the job is due.
func TestFullRound(t *testing.T) {
	db := postgrestest.Open(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, "CREATE TABLE it_has_begun_to_write ()")
	q, req := behindForeign(t, db)
	wantClaimed(t, q, req, 0)
	old := &queue.Job{Kind: "test", ScheduledAt: time.Now().Add(-30 * time.Minute)}
	if err := q.Enqueue(t.Context(), tx, old); err != nil {
		t.Fatal(err)
	}
	wantClaimed(t, q, req, 0)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wantClaimed(t, q, req, 1)
}
