package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestLockedOnce: a claim beside another one passes over jobs that a transaction has locked and
// left, until there are no others. A claim alone takes them in their order.
func TestLockedOnce(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(3)...)
	leave := func() (first int64) {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		return value[int64](t, tx, "SELECT id FROM errand.jobs WHERE status = 'pending' ORDER BY id LIMIT 1 FOR UPDATE")
	}
	claimOne := func() int64 {
		t.Helper()
		got := claim(t, q, 1)
		if len(got) != 1 {
			t.Fatalf("claimed %d jobs, want 1", len(got))
		}
		return got[0].ID
	}
	first := leave()
	if got := claimOne(); got != first {
		t.Errorf("alone: claimed job %d, want %d", got, first)
	}
	left := leave()
	other, err := db.Begin() // holds the advisory lock of a claim like this
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	if !value[bool](t, other, "SELECT pg_try_advisory_xact_lock('errand.jobs'::regclass::integer, hashtext(concat('{default}'::text[], NULL)))") {
		t.Fatal("the advisory lock is taken")
	}
	if got := claimOne(); got == left {
		t.Errorf("beside another claim: claimed job %d, which was locked once, before the others", got)
	}
	if got := claimOne(); got != left {
		t.Errorf("at last: claimed job %d, want %d", got, left)
	}
}

// TestClaimTxKeepsNoTurn: a transaction that has claimed a job does not hold up the order of other
// claims, however long it is open.
func TestClaimTxKeepsNoTurn(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(2)...)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if job, err := q.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"default"}}); err != nil || job == nil {
		t.Fatalf("got %v and error %v, want a job", job, err)
	}
	if n := value[int](t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
		t.Errorf("%d advisory locks are held, want none", n)
	}
}

// TestRecentFirst: new jobs do not wait while a claim reads all jobs of other kinds at the head of
// their priority or of a more urgent one. A claim finds older jobs if there are no new ones.
func TestRecentFirst(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	const foreign = 30_000
	db := postgrestest.Open(t)
	lock := func(tx *sql.Tx) (rows, locked int) {
		t.Helper()
		_, rows, locked = readByLockDue(t, tx, "'{default}', '{k}', 10, '1ms', recent_first => true")
		return rows, locked
	}
	insert := func(tx *sql.Tx, kind string, priority, n int, age string) {
		t.Helper()
		exec(t, tx, `INSERT INTO errand.jobs (kind, priority, scheduled_at)
			SELECT $1, $2, statement_timestamp() - $4::text::interval FROM generate_series(1, $3::integer)`, kind, priority, n, age)
	}
	for _, foreignPriority := range []int{0, -1} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		insert(tx, "foreign", foreignPriority, foreign, "1 hour")
		insert(tx, "k", 0, 1, "0")
		insert(tx, "k", 0, 1, "1 minute")
		if rows, locked := lock(tx); foreignPriority == 0 && locked != 1 || foreignPriority == -1 && locked != 2 || rows > foreign/5 {
			t.Errorf("beside foreign jobs of priority %d: locked %d jobs by reading %d rows", foreignPriority, locked, rows)
		}
		exec(t, tx, "DELETE FROM errand.jobs WHERE scheduled_at >= now()")
		if _, locked := lock(tx); locked != 1 {
			t.Errorf("beside foreign jobs of priority %d: locked %d older jobs, want 1", foreignPriority, locked)
		}
		insert(tx, "k", 0, 1, "2 hours")
		if _, locked := lock(tx); locked != 2 {
			t.Errorf("a job at the head, before foreign jobs of priority %d: locked %d, want 2", foreignPriority, locked)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}
