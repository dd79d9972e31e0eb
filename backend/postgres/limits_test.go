package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// setRules sets rules on the backend's own handle.
func setRules(t *testing.T, q *postgres.Backend, rules ...queue.Rule) {
	t.Helper()
	if err := q.SetRules(t.Context(), nil, rules...); err != nil {
		t.Fatal(err)
	}
}

// claimTwenty claims up to 20 jobs of a limited queue in a transaction, and returns how many.
func claimTwenty(t *testing.T, tx *sql.Tx) int {
	t.Helper()
	return value[int](t, tx, `SELECT count(*) - 1 FROM errand.claim_limited('default', NULL, 20, 60000000, 'w', 65536,
		(SELECT version FROM errand.rules_version), '', '', NULL)`)
}

// TestLimitedClaimsReadFew: a claim of a limited queue reads few rows more than it claims, behind
// many jobs of a full group or a locked one, beside jobs that are scheduled for later, and with the
// statistics of an empty table and of a full one.
func TestLimitedClaimsReadFew(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	setRules(t, q, queue.Rule{PerGroup: 2})
	check := func(state string) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		exec(t, tx, "DISCARD PLANS")
		got := 0
		scans, rows := readBy(t, tx, func() { got = claimTwenty(t, tx) })
		// Each job is found, locked and changed; each group is found and its running jobs are counted.
		if got != 20 || scans != 0 || rows > 12*got {
			t.Errorf("%s: claimed %d jobs in %d sequential scans, reading %d rows; want 20, none and few", state, got, scans, rows)
		}
	}
	exec(t, db, `INSERT INTO errand.jobs (kind, job_group) SELECT 'k', 'a' FROM generate_series(1, 10000)`)
	exec(t, db, `INSERT INTO errand.jobs (kind, job_group) SELECT 'k', 'b' || i % 100 FROM generate_series(1, 2000) i`)
	exec(t, db, `INSERT INTO errand.jobs (kind, job_group, scheduled_at)
		SELECT 'k', 'b' || i % 5, now() + interval '1 day' FROM generate_series(1, 10000) i`)
	if held := claim(t, q, 2); len(held) != 2 {
		t.Fatalf("claimed %d jobs, want 2", len(held))
	}
	exec(t, db, `UPDATE errand.jobs SET status = 'running', limited = true WHERE id <= 2`) // group a is full
	exec(t, db, `UPDATE errand.limited_queues SET marked = true`)
	check("no statistics")
	exec(t, db, `ANALYZE errand.jobs`)
	check("analyzed")
	exec(t, db, `DELETE FROM errand.jobs WHERE job_group = 'a' AND status = 'pending'`)
	exec(t, db, `ANALYZE errand.jobs`)
	exec(t, db, `INSERT INTO errand.jobs (kind, job_group) SELECT 'k', 'c' || i FROM generate_series(1, 10000) i`)
	check("old statistics")
	exec(t, db, `DELETE FROM errand.jobs WHERE status = 'running'`)
	exec(t, db, `INSERT INTO errand.jobs (kind, job_group) SELECT 'k', 'a' FROM generate_series(1, 10000)`)
	exec(t, db, `VACUUM errand.jobs`)
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	exec(t, other, `SELECT FROM errand.jobs WHERE job_group = 'a' FOR UPDATE`)
	check("a group of locked jobs")
}

// TestTurnsStopAtWhatIsNotDue: jobs of a group that are scheduled for later cost a claim nothing,
// also if fewer of them are due than it may claim.
func TestTurnsStopAtWhatIsNotDue(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	setRules(t, q, queue.Rule{Share: 5})
	exec(t, db, `INSERT INTO errand.jobs (kind, job_group, priority, scheduled_at)
		SELECT 'k' || i % 3, 'g', i % 2, now() + interval '1 day' FROM generate_series(1, 10000) i`)
	enqueue(t, q, &queue.Job{Kind: "k1", Group: "g"}, &queue.Job{Kind: "k2", Group: "g", Priority: 1})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	claimed := 0
	if _, rows := readBy(t, tx, func() { claimed = claimTwenty(t, tx) }); claimed != 2 || rows > 20*claimed {
		t.Errorf("claimed %d jobs, reading %d rows; want 2 and few", claimed, rows)
	}
}

// TestTurnsOfSeveralKinds: a claim takes the jobs of a group by their due times, whatever their
// kinds, and passes over those that others have locked. One statement does that for all groups.
func TestTurnsOfSeveralKinds(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	setRules(t, q, queue.Rule{Share: 3})
	exec(t, db, `INSERT INTO errand.jobs (kind, job_group, scheduled_at) SELECT 'k' || i % 4, 'g' || i / 10, to_timestamp(i)
		FROM generate_series(10, 79) i`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, `SET LOCAL track_functions = 'all'`)
	if got := claimTwenty(t, tx); got != 20 {
		t.Errorf("claimed %d jobs, want 20", got)
	}
	if calls := value[int](t, tx, `SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions
		WHERE funcname IN ('lock_group', 'group_jobs')`); calls != 0 {
		t.Errorf("the claim calls functions for its groups %d times", calls)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	exec(t, other, `SELECT FROM errand.jobs WHERE extract(epoch FROM scheduled_at) IN (11, 12, 20) FOR UPDATE`)
	var due []int64
	req := request(6)
	req.Kinds = []string{"k0", "k2", "k3"}
	jobs, err := q.Claim(t.Context(), req)
	for _, job := range jobs {
		due = append(due, job.ScheduledAt.Unix())
	}
	slices.Sort(due)
	if want := []int64{10, 14, 15, 22, 23, 24}; err != nil || !slices.Equal(due, want) {
		t.Errorf("claimed the jobs due at %d and %v, want %d", due, err, want)
	}
}

// TestLimitsUnderRepeatableRead: limits hold although the database's default isolation level would
// give all statements of a claim one snapshot.
func TestLimitsUnderRepeatableRead(t *testing.T) {
	t.Parallel()
	db, _ := fresh(t, postgres.Options{})
	exec(t, db, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); END $$`)
	db.SetMaxIdleConns(0) // so that the next connections have it
	db.SetMaxIdleConns(2)
	q := backend(t, db, postgres.Options{})
	setRules(t, q, queue.Rule{Running: 3})
	enqueue(t, q, jobs(20)...)
	results := make(chan int)
	for i := range 8 {
		go func() {
			req := request(2)
			req.Worker = fmt.Sprint("w", i)
			held, err := q.Claim(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			results <- len(held)
		}()
	}
	claimed := 0
	for range 8 {
		claimed += <-results
	}
	if claimed != 3 {
		t.Errorf("8 claimers under repeatable read claimed %d jobs with a limit of 3", claimed)
	}
}

// TestMarkLimited: a job that was claimed before its queue had rules counts, even if a transaction
// has locked its row while the queue's running jobs are marked.
func TestMarkLimited(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(10)...)
	held := claim(t, q, 3)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, held[0].ID)
	setRules(t, q, queue.Rule{Running: 4})
	if got := claim(t, q, 10); len(got) != 1 {
		t.Errorf("claimed %d jobs beside 3 that run, one of them locked, with a limit of 4; want 1", len(got))
	}
	if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE limited`); n != 3 {
		t.Errorf("%d jobs are marked, want 3", n)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE errand.limited_queues SET since = now() - interval '2 minutes'`)
	for range 2 {
		if got := claim(t, q, 10); len(got) != 0 {
			t.Errorf("claimed %d jobs beside 4 that run, with a limit of 4", len(got))
		}
	}
	if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE limited`); n != 4 {
		t.Errorf("%d jobs are marked, want 4", n)
	}
	if !value[bool](t, db, `SELECT marked FROM errand.limited_queues`) {
		t.Error("the queue's running jobs are not known to be marked after a minute")
	}
}

// TestMarkedSinceCommit: the minute in which claims that know no rules end begins when claims know
// the rules, not when the transaction that sets them begins.
func TestMarkedSinceCommit(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := q.SetRules(t.Context(), tx, queue.Rule{Running: 4}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	committed := value[time.Time](t, db, `SELECT clock_timestamp()`)
	claim(t, q, 10)
	if since := value[time.Time](t, db, `SELECT since FROM errand.limited_queues`); since.Before(committed) {
		t.Errorf("the minute began %v before the rules were committed", committed.Sub(since))
	}
	if value[bool](t, db, `SELECT marked FROM errand.limited_queues`) {
		t.Error("after one claim the queue's running jobs are known to be marked")
	}
}

// TestSleepBesideTakenPlace: a worker that is about to sleep when another worker of its process has
// just taken the last place looks again within a second. The end of that job wakes only its own
// worker, which may have stopped.
func TestSleepBesideTakenPlace(t *testing.T) {
	t.Parallel()
	_, q := fresh(t, postgres.Options{})
	if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: queue.DefaultQueue, Running: 1}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, jobs(2)...)
	if got := claim(t, q, 10); len(got) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(got))
	}
	next, err := q.Sleep(t.Context(), "another", []string{queue.DefaultQueue})
	if err != nil || next < 0 || next > time.Second {
		t.Errorf("Sleep: look again in %v, error %v; want within a second", next, err)
	}
}
