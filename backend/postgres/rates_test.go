package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// claimN claims up to n jobs of the default queue and checks that it gets want.
func claimN(t *testing.T, b *postgres.Backend, n, want int) {
	t.Helper()
	jobs, err := b.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: n, Lease: time.Minute, Worker: "w"})
	if err != nil || len(jobs) != want {
		t.Fatalf("claim of %d jobs: got %d, error %v; want %d", n, len(jobs), err, want)
	}
}

// TestRatesAcrossBackends: two backends of one database share a rate, and one learns at once what
// the other has set.
func TestRatesAcrossBackends(t *testing.T) {
	t.Parallel()
	db, one := fresh(t, postgres.Options{})
	other := backend(t, db, postgres.Options{})
	setRules(t, one, queue.Rule{Rate: queue.Rate{Jobs: 1, Per: time.Hour, Burst: 10}})
	exec(t, db, `INSERT INTO errand.jobs (kind, payload) SELECT 'test', '1' FROM generate_series(1, 100)`)
	claimN(t, one, 6, 6)
	claimN(t, other, 6, 4)
	claimN(t, one, 6, 0)
	claimN(t, other, 6, 0)
	setRules(t, other, queue.Rule{Rate: queue.Rate{Jobs: 1, Per: time.Hour, Burst: 13}})
	claimN(t, other, 2, 2)
	time.Sleep(60 * time.Millisecond) // one leaves claims out for 50 ms at most
	claimN(t, one, 2, 1)
}

// TestOddCosts: costs that SQL has written, and no Enqueue writes.
func TestOddCosts(t *testing.T) {
	t.Parallel()
	db, b := fresh(t, postgres.Options{})
	setRules(t, b, queue.Rule{GroupRate: queue.Rate{Jobs: 1, Per: time.Hour, Burst: 3}})
	exec(t, db, `INSERT INTO errand.jobs (kind, payload, job_group, cost)
		SELECT 'test', '1', g, c FROM unnest(ARRAY['a', 'b', 'c'], ARRAY[-1000, 0, 2147483647]) AS u (g, c), generate_series(1, 5)`)
	claimN(t, b, 100, 3+3+1)
	claimN(t, b, 100, 0)
	if id := value[int64](t, db, `SELECT errand.enqueue('default', 'test', job_group => 'd', cost => 2)`); id == 0 {
		t.Error("enqueue: no id")
	}
	if cost := value[int](t, db, `SELECT cost FROM errand.jobs WHERE job_group = 'd'`); cost != 2 {
		t.Errorf("the cost that enqueue has written: %d, want 2", cost)
	}
	for _, bad := range []int{-1, 1_000_001} {
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf(`SELECT errand.enqueue('default', 'test', cost => %d)`, bad)); err == nil {
			t.Errorf("enqueue with the cost %d: no error", bad)
		}
	}
}

// TestTokensSwept: Prune removes the buckets that are full, and no others.
func TestTokensSwept(t *testing.T) {
	t.Parallel()
	db, b := fresh(t, postgres.Options{})
	setRules(t, b, queue.Rule{GroupRate: queue.Rate{Jobs: 1000, Burst: 1}},
		queue.Rule{Group: "slow", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}})
	exec(t, db, `INSERT INTO errand.jobs (kind, payload, job_group) SELECT 'test', '1', CASE i WHEN 0 THEN 'slow' ELSE 'group' || i END FROM generate_series(0, 50) AS i`)
	claimN(t, b, 100, 51)
	if n := value[int](t, db, `SELECT count(*) FROM errand.tokens`); n != 51 {
		t.Fatalf("%d buckets after a claim from 51 groups", n)
	}
	time.Sleep(5 * time.Millisecond)
	if _, _, err := b.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := value[string](t, db, `SELECT string_agg(job_group, ' ') FROM errand.tokens`); left != "slow" {
		t.Errorf("buckets after Prune: %q, want the one that is not full", left)
	}
}

// TestTokensOfChangedRates: Prune removes buckets that are full at a rate that was raised, or whose
// rate was removed, although at the rate at which they were spent from they are full in a year.
func TestTokensOfChangedRates(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for name, rate := range map[string]queue.Rate{"raised": {Jobs: 1000}, "removed": {}} {
		db, b := fresh(t, postgres.Options{})
		setRules(t, b, queue.Rule{GroupRate: queue.Rate{Jobs: 1, Per: 366 * 24 * time.Hour}})
		exec(t, db, `INSERT INTO errand.jobs (kind, payload, job_group) SELECT 'test', '1', 'group' || i FROM generate_series(1, 500) AS i`)
		claimN(t, b, 500, 500)
		setRules(t, b, queue.Rule{GroupRate: rate})
		time.Sleep(5 * time.Millisecond)
		if _, _, err := b.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := value[int](t, db, `SELECT count(*) FROM errand.tokens`); n != 0 {
			t.Errorf("%s: %d of 500 buckets are left after Prune", name, n)
		}
	}
}

// TestThrottleLocksNoBucket: a transaction that settles with a throttle keeps no bucket locked.
func TestThrottleLocksNoBucket(t *testing.T) {
	t.Parallel()
	db, b := fresh(t, postgres.Options{})
	setRules(t, b, queue.Rule{GroupRate: queue.Rate{Jobs: 1000, Burst: 5}})
	exec(t, db, `INSERT INTO errand.jobs (kind, payload, job_group) SELECT 'test', '1', 'g' FROM generate_series(1, 9)`)
	jobs, err := b.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	o := queue.Outcome{Job: jobs[0], Action: queue.Release, Delay: time.Millisecond, Throttle: true}
	if lost, err := b.Settle(t.Context(), tx, o); err != nil || len(lost) > 0 {
		t.Fatalf("Settle: lost %d, error %v", len(lost), err)
	}
	time.Sleep(20 * time.Millisecond)
	claimN(t, b, 3, 3)
}

// TestRatedClaimsReadFewBuckets: a claim reads the buckets of the groups that it visits, along the
// index, however many there are.
func TestRatedClaimsReadFewBuckets(t *testing.T) {
	t.Parallel()
	db, b := fresh(t, postgres.Options{})
	setRules(t, b, queue.Rule{Rate: queue.Rate{Jobs: 1, Per: time.Hour, Burst: 100}, GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}})
	exec(t, db, `INSERT INTO errand.tokens (queue, job_group, full_at)
		SELECT 'default', 'spent' || i, errand.nanoseconds(now() + interval '1 day') FROM generate_series(1, 20000) AS i`)
	exec(t, db, `INSERT INTO errand.jobs (kind, payload, job_group)
		SELECT 'test', '1', CASE i % 2 WHEN 0 THEN 'new' ELSE 'spent' END || i FROM generate_series(1, 40) AS i`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	read := func() int {
		return value[int](t, tx, `SELECT (pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(i.oid)
				+ pg_stat_get_xact_tuples_returned(i.oid))::integer
			FROM pg_class c, pg_class i WHERE c.oid = 'errand.tokens'::regclass AND i.oid = 'errand.tokens_pkey'::regclass`)
	}
	before := read()
	got := value[int](t, tx, `SELECT count(*) - 1 FROM errand.claim_limited('default', NULL, 50, 60000000, 'w', 65536,
		(SELECT version FROM errand.rules_version), '', '', NULL)`)
	if n := read() - before; got != 20 || n > 200 {
		t.Errorf("a claim of %d jobs (want 20) has read %d buckets", got, n)
	}
}

// TestMarkedStays: to change the rates of a queue that has nothing else in its rule does not make
// its claims look for unmarked jobs again.
func TestMarkedStays(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	for _, jobs := range []int{10, 20} {
		if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: jobs}}); err != nil {
			t.Fatal(err)
		}
		if jobs == 10 {
			exec(t, db, `UPDATE errand.limited_queues SET marked = true`)
		}
	}
	if !value[bool](t, db, `SELECT marked FROM errand.limited_queues WHERE queue = 'q'`) {
		t.Error("the queue is not marked any more")
	}
}
