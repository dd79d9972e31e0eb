package postgres_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// holdInClaim makes each claim of a limited queue wait, after it has read the queue's rule and
// before it reads those of the groups, until the returned function is called.
func holdInClaim(t *testing.T, db queue.DB, lock queue.DB) (release func()) {
	t.Helper()
	const key = 4711
	exec(t, db, `ALTER FUNCTION errand.mark_limited(text) RENAME TO mark_limited_usual`)
	exec(t, db, `CREATE FUNCTION errand.mark_limited(queue_name text) RETURNS text[] LANGUAGE plpgsql SET lock_timeout = 0 AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock(4711);
			RETURN errand.mark_limited_usual(queue_name);
		END $$`)
	exec(t, lock, `SELECT pg_advisory_lock($1)`, key)
	return func() { exec(t, lock, `SELECT pg_advisory_unlock($1)`, key) }
}

// TestRulesExchangedInClaim: a claim that has begun under some rules, and goes on when a
// transaction has set others, keeps the old ones or the new ones. It has read the queue's rule
// before, and reads those of the groups afterwards.
func TestRulesExchangedInClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		old, new []queue.Rule
		ordered  bool
		most     int
	}{
		{"the group's limit becomes the queue's", []queue.Rule{{Share: 1}, {Group: "g", PerGroup: 1}}, []queue.Rule{{PerGroup: 1}, {Group: "g"}}, false, 1},
		{"the group's rate becomes the queue's", []queue.Rule{{Share: 1}, {Group: "g", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour, Burst: 1}}},
			[]queue.Rule{{GroupRate: queue.Rate{Jobs: 1, Per: time.Hour, Burst: 1}}, {Group: "g"}}, false, 1},
		{"the group's pause becomes the queue's", nil, nil, false, 0},
		{"the group's pause becomes the queue's, with ordered jobs", nil, nil, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, q := fresh(t, postgres.Options{})
			isPause := c.old == nil
			if isPause {
				if _, err := q.Pause(t.Context(), nil, queue.Target{Group: "g", InQueue: "default"}, true); err != nil {
					t.Fatal(err)
				}
			} else {
				setRules(t, q, c.old...)
			}
			for range 10 {
				enqueue(t, q, &queue.Job{Kind: "test", Group: "g", Ordered: c.ordered})
			}
			lock, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			release := holdInClaim(t, db, lock)
			claimed := make(chan int)
			go func() {
				got, err := q.Claim(t.Context(), request(10))
				if err != nil {
					t.Error(err)
				}
				claimed <- len(got)
			}()
			eventually(t, "the claim that waits", func() bool {
				return value[bool](t, db, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted
					AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
			})
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if isPause {
				if _, err := q.Pause(t.Context(), tx, queue.Target{Queue: "default"}, true); err != nil {
					t.Fatal(err)
				}
				if _, err := q.Pause(t.Context(), tx, queue.Target{Group: "g", InQueue: "default"}, false); err != nil {
					t.Fatal(err)
				}
			} else if err := q.SetRules(t.Context(), tx, c.new...); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			release()
			if n := <-claimed; n != c.most {
				t.Errorf("claimed %d jobs of the group, and %d are what the rules before and after allow", n, c.most)
			}
		})
	}
}
