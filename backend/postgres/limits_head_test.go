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

// mostRead is how many due jobs of a priority a claim of a limited queue reads from its head on:
// lock_spans.
const mostRead = 2500

// unhandledHeads are queues with a rule, and with many due jobs at their heads of a kind that the
// claims are not for. A new job is in the group.
var unhandledHeads = []struct {
	name  string
	rule  queue.Rule
	heads string // the group of the due job i
	group string
}{
	{"most running", queue.Rule{Running: 10}, "NULL", ""},
	{"most running, in groups", queue.Rule{Running: 10}, "'g' || i % 10", "g5"},
	{"most of each group", queue.Rule{PerGroup: 10}, "'acme'", "acme"},
	{"most of each group, two groups", queue.Rule{PerGroup: 10}, "'g' || i % 2", "g1"},
	{"turns of 1,000 groups", queue.Rule{Share: 1}, "'g' || i % 1000", "g500"},
	{"turns, without groups", queue.Rule{Share: 1}, "NULL", ""},
	{"turns, new jobs without a group", queue.Rule{Share: 1}, "'g' || i % 10", ""},
}

// insertUnhandled inserts due jobs of a kind that requestTest is not for, all due at one time.
func insertUnhandled(t *testing.T, db queue.DB, n int, group string) {
	t.Helper()
	exec(t, db, `INSERT INTO errand.jobs (kind, scheduled_at, job_group)
		SELECT 'foreign', now() - interval '1 hour', `+group+` FROM generate_series(1, $1::integer) i`, n)
}

func requestTest(n int) queue.ClaimRequest {
	req := request(n)
	req.Kinds = []string{"test", "zebra"}
	return req
}

// TestLimitedClaimsBesideUnhandled: claims of a limited queue read a small part of the due jobs at
// its head that they are not for, and each finds the new job.
func TestLimitedClaimsBesideUnhandled(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	const claims, unhandledJobs = 20, 16 * mostRead
	for _, c := range unhandledHeads {
		t.Run(c.name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			db, _ := ways[0].open(t, dsn)
			closing, _ := ways[0].open(t, dsn)
			q := backend(t, closing, postgres.Options{})
			setRules(t, q, c.rule)
			insertUnhandled(t, db, unhandledJobs, c.heads)
			req := requestTest(5)
			wantClaimed(t, q, req, 0)
			before := limitedEntriesRead(t, db, closing)
			for i := range claims {
				enqueue(t, q, &queue.Job{Kind: "test", Group: c.group, Priority: int32(i % 2)})
				settle(t, q, queue.Outcome{Job: wantClaimed(t, q, req, 1)[0]})
			}
			if each := (limitedEntriesRead(t, db, closing) - before) / claims; each > unhandledJobs/10 {
				t.Errorf("a claim reads %d entries, want at most a tenth of the %d that it passes over", each, unhandledJobs)
			}
		})
	}
}

// limitedEntriesRead is entriesRead with the index of groups.
func limitedEntriesRead(t *testing.T, db, closing *sql.DB) int {
	t.Helper()
	return entriesRead(t, db, closing, 1) +
		value[int](t, db, `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_group_idx'`)
}

// TestLimitedClaimsHoldTheLockShortly: the statement that claims behind the lock of a limited queue
// reads few jobs, whatever stands at the head and whatever the statistics say. It does so before
// claims are rationed, too.
func TestLimitedClaimsHoldTheLockShortly(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, c := range unhandledHeads {
		t.Run(c.name, func(t *testing.T) {
			db, q := fresh(t, postgres.Options{})
			setRules(t, q, c.rule)
			exec(t, db, `UPDATE errand.limited_queues SET marked = true`)
			for _, state := range []string{"no statistics", "analyzed"} {
				insertUnhandled(t, db, 4*mostRead, c.heads)
				if state == "analyzed" {
					exec(t, db, `ANALYZE errand.jobs`)
				}
				enqueue(t, q, &queue.Job{Kind: "test", Group: c.group})
				scans, rows := readByClaim(t, db)
				// Those and the look for more, or three look-ups in each of 1,000 groups.
				if scans != 0 || rows > 2*mostRead+100 {
					t.Errorf("%s: a claim read the table in %d sequential scans, and %d rows", state, scans, rows)
				}
			}
		})
	}
}

// readByClaim returns how a claim of a limited queue from its heads reads the table.
func readByClaim(t *testing.T, db *sql.DB) (scans, rows int) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, "DISCARD PLANS")
	return readBy(t, tx, func() {
		exec(t, tx, `SELECT FROM errand.claim_limited('default', '{test,zebra}', 20, 60000000, 'w', 65536,
			(SELECT version FROM errand.rules_version), '', '', NULL)`)
	})
}

// TestLimitedRationFindsAll: behind jobs of other kinds, a claim of a limited queue finds a job
// that has committed late, one of an old due time, one that was released, and one of a new
// priority.
func TestLimitedRationFindsAll(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, c := range unhandledHeads {
		t.Run(c.name, func(t *testing.T) {
			db, q := fresh(t, postgres.Options{})
			setRules(t, q, c.rule)
			insertUnhandled(t, db, 2*mostRead, c.heads)
			req := requestTest(5)
			wantClaimed(t, q, req, 0)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if err := q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test", Group: c.group}); err != nil {
				t.Fatal(err)
			}
			enqueue(t, q, &queue.Job{Kind: "zebra", Group: c.group, Priority: -3})
			released := wantClaimed(t, q, req, 1)[0]
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			late := wantClaimed(t, q, req, 1)
			enqueue(t, q, &queue.Job{Kind: "test", Group: c.group, ScheduledAt: time.Now().Add(-30 * time.Minute)})
			settle(t, q, queue.Outcome{Job: released, Action: queue.Release}, queue.Outcome{Job: late[0]})
			found := 0
			eventually(t, "the job of an old due time and the released one", func() bool {
				jobs, err := q.Claim(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				found += len(jobs)
				return found == 2
			})
		})
	}
}
