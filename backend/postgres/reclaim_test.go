package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// TestExpiredList: Jobs lists as expired what Reclaim takes, jobs of guide workers included.
func TestExpiredList(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(6)...)
	exec(t, db, "UPDATE errand.jobs SET status = 'running', locked_by = 'w', fence = 7, locked_at = now(), locked_until = now() + interval '1 hour'")
	for id, set := range map[int]string{
		1: "locked_until = NULL",
		2: "locked_until = NULL, locked_at = now() - interval '9 minutes'",
		3: "locked_until = NULL, locked_at = now() - interval '11 minutes'",
		4: "locked_until = now() - interval '1 hour', locked_at = now() - interval '11 minutes'", // an earlier claim's
		5: "locked_until = now() - interval '1 second', locked_at = now() - interval '1 minute'",
	} {
		exec(t, db, fmt.Sprintf("UPDATE errand.jobs SET %s WHERE id = %d", set, id))
	}
	page, _, err := q.Jobs(t.Context(), queue.Filter{Expired: true})
	if err != nil {
		t.Fatal(err)
	}
	var listed []int64
	for _, r := range page {
		listed = append(listed, r.ID)
	}
	if want := []int64{5, 4, 3}; !slices.Equal(listed, want) {
		t.Errorf("expired jobs: got %v, want %v", listed, want)
	}
	reclaimed, err := q.Reclaim(t.Context(), 10)
	if err != nil || len(reclaimed) != len(listed) {
		t.Errorf("Reclaim: got %d jobs, %v; want the %d that were listed", len(reclaimed), err, len(listed))
	}
}

// TestReclaimApart: jobs of a crashed worker whose last run also ended in a crash are not reclaimed
// all at once. So a job that kills its process does not run beside the same jobs each time. All
// others are reclaimed at once.
func TestReclaimApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, set string
		apart     bool
	}{
		{"second crash", "attempts = 2, last_error = 'errand: the lease of worker w expired', locked_until = now() - interval '5 minutes'", true},
		{"third crash", "attempts = 3, last_error = 'errand: the lease of worker w expired', locked_until = now() - interval '5 minutes'", true},
		{"half a lease after the third crash", "attempts = 3, last_error = 'errand: the lease of worker w expired', locked_until = now() - interval '10 minutes'", false},
		{"fourth crash", "attempts = 4, last_error = 'errand: the lease of worker w expired', locked_at = now() - interval '50 minutes', locked_until = now() - interval '30 minutes'", true},
		{"sixth crash", "max_attempts = 7, attempts = 6, last_error = 'errand: the lease of worker w expired', locked_at = now() - interval '50 minutes', locked_until = now() - interval '30 minutes'", true},
		{"first crash", "attempts = 1", false},
		{"second crash of a guide's worker", "attempts = 2, last_error = 'errand: the lease of worker w expired', locked_until = NULL", false},
		{"crash after an error", "attempts = 2, last_error = 'boom'", false},
		{"last attempt", "attempts = 5, last_error = 'errand: the lease of worker w expired'", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 64
			db, q := fresh(t, postgres.Options{})
			enqueue(t, q, jobs(n)...)
			exec(t, db, `UPDATE errand.jobs SET status = 'running', locked_by = 'w', fence = 7,
				locked_at = now() - interval '30 minutes', locked_until = now() - interval '10 minutes'`)
			exec(t, db, "UPDATE errand.jobs SET "+c.set)
			for range 2 { // looking again finds no more
				got, err := q.Reclaim(t.Context(), 1000)
				if err != nil {
					t.Fatal(err)
				}
				left := value[int](t, db, "SELECT count(*) FROM errand.jobs WHERE status = 'running'")
				if c.apart && (left < n/4 || left > n*3/4) || !c.apart && left > 0 {
					t.Errorf("got %d of %d jobs, with %d left: want about half of them left: %v", len(got), n, left, c.apart)
				}
			}
			exec(t, db, "UPDATE errand.jobs SET locked_at = locked_at - interval '2 hours', locked_until = locked_until - interval '2 hours'")
			if _, err := q.Reclaim(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
			if left := value[int](t, db, "SELECT count(*) FROM errand.jobs WHERE status = 'running'"); left != 0 {
				t.Errorf("%d jobs are never reclaimed", left)
			}
		})
	}
}

// TestTakingDoesNotWait: a claim or Reclaim that would have to wait for a lock takes nothing, and
// the next one goes on. A policy makes it wait, as PostgreSQL does for a row that is just being
// updated.
func TestTakingDoesNotWait(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, c := range map[string]struct {
		set  string
		take func(q *postgres.Backend) ([]*queue.Job, error)
	}{
		"claim": {"priority = 0", func(q *postgres.Backend) ([]*queue.Job, error) { return q.Claim(ctx, request(10)) }},
		"reclaim": {
			"status = 'running', locked_by = 'w', fence = 7, locked_at = now() - interval '2 minutes', locked_until = now() - interval '1 minute'",
			func(q *postgres.Backend) ([]*queue.Job, error) { return q.Reclaim(ctx, 10) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			db, _ := ways[0].open(t, dsn)
			enqueue(t, backend(t, db, postgres.Options{}), jobs(1)...)
			exec(t, db, `UPDATE errand.jobs SET `+c.set)
			q := backend(t, gated(t, db, dsn), postgres.Options{})
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			exec(t, tx, `SELECT FROM gate FOR UPDATE`)
			if got, err := c.take(q); len(got) > 0 || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("beside a lock: got %d jobs and %v, want none, soon", len(got), err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if got, err := c.take(q); err != nil || len(got) != 1 {
				t.Errorf("afterwards: got %d jobs and %v, want the one", len(got), err)
			}
		})
	}
}

// gated connects as a role that waits, at each row that it looks at, for whatever has locked the
// table gate.
func gated(t *testing.T, db *sql.DB, dsn string) *sql.DB {
	t.Helper()
	role := value[string](t, db, `SELECT current_database()`) + "_gated"
	t.Cleanup(func() {
		for _, s := range []string{`DROP OWNED BY `, `DROP ROLE `} {
			if _, err := db.ExecContext(context.Background(), s+role); err != nil {
				t.Error(err)
			}
		}
	})
	for _, s := range []string{
		`CREATE ROLE ` + role,
		`GRANT USAGE ON SCHEMA errand TO ` + role,
		`GRANT ALL ON ALL TABLES IN SCHEMA errand TO ` + role,
		`GRANT ALL ON ALL SEQUENCES IN SCHEMA errand TO ` + role,
		`CREATE TABLE gate AS SELECT 1 AS id`,
		`CREATE FUNCTION pass() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN PERFORM FROM gate FOR UPDATE; RETURN true; END'`,
		`ALTER TABLE errand.jobs ENABLE ROW LEVEL SECURITY`,
		`CREATE POLICY pass ON errand.jobs USING (pass())`,
	} {
		exec(t, db, s)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", role)
	u.RawQuery = q.Encode()
	limited, _ := ways[0].open(t, u.String())
	return limited
}
