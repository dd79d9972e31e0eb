package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// The advisory locks of the claims of a queue.
const (
	limitedLock = `SELECT pg_advisory_xact_lock('errand.rules'::regclass::integer, hashtext($1))`
	orderedLock = `SELECT pg_advisory_xact_lock('errand.jobs_ordered_one_idx'::regclass::integer, hashtext($1))`
)

// TestClaimBesideHeldLock: while another session holds the lock of a queue's claims, a claim of
// several queues returns the jobs of the others, in whatever order it names them. When the lock is
// free, it claims from all.
func TestClaimBesideHeldLock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, lock string
		job        queue.Job
		rules      []queue.Rule
	}{
		{"limited", limitedLock, queue.Job{}, []queue.Rule{{Queue: "slow", Running: 100}}},
		{"groups in turns", limitedLock, queue.Job{Group: "g"}, []queue.Rule{{Queue: "slow", Share: 1}}},
		{"ordered", orderedLock, queue.Job{Group: "g", Ordered: true}, nil},
		{"ordered, locked beside rules", orderedLock, queue.Job{Group: "g", Ordered: true}, []queue.Rule{{Queue: "slow", Running: 100}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, q := fresh(t, postgres.Options{})
			setRules(t, q, c.rules...)
			c.job.Queue, c.job.Kind = "slow", "k"
			enqueue(t, q, &c.job)
			warm := request(10)
			warm.Queues = []string{"slow"}
			// Now it knows the rules, and that there are ordered jobs.
			settle(t, q, queue.Outcome{Job: wantClaimed(t, q, warm, 1)[0], Action: queue.Release})
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			exec(t, tx, c.lock, "slow")
			for _, order := range [][]string{{"quick", "slow"}, {"slow", "quick"}, {"quick", "slow", "quick2"}} {
				others := 0
				for _, name := range order {
					if name != "slow" {
						enqueue(t, q, &queue.Job{Queue: name, Kind: "k"})
						others++
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				req := request(10)
				req.Queues = order
				jobs, err := q.Claim(ctx, req)
				if err != nil || ctx.Err() != nil || len(jobs) != others {
					t.Fatalf("Claim of %q: %d jobs, error %v, and its context has %v; want %d at once", order, len(jobs), err, ctx.Err(), others)
				}
				for _, job := range jobs {
					settle(t, q, queue.Outcome{Job: job})
				}
				if jobs, err := q.Claim(ctx, req); len(jobs) != 0 || err != nil || ctx.Err() != nil {
					t.Errorf("Claim of %q without other jobs: %d, error %v, and its context has %v", order, len(jobs), err, ctx.Err())
				}
			}
			if next, err := q.Sleep(t.Context(), "w", []string{"quick", "slow"}); err != nil || next < 0 || next > time.Second {
				t.Errorf("Sleep: look again after %v, error %v; want soon, because nothing wakes the worker when the lock is free", next, err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			req := request(10)
			req.Queues = []string{"quick", "slow"}
			wantClaimed(t, q, req, 1)
		})
	}
}

// TestClaimWaitsForItsOnlyQueue: a claim of one queue waits for the lock of its claims, and for no
// longer than its context.
func TestClaimWaitsForItsOnlyQueue(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	setRules(t, q, queue.Rule{Running: 100})
	enqueue(t, q, jobs(1)...)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec(t, tx, limitedLock, "default")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if jobs, err := q.Claim(ctx, request(10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim: %d jobs, error %v; want that of its context", len(jobs), err)
	}
	free := time.AfterFunc(100*time.Millisecond, func() { _ = tx.Rollback() })
	defer free.Stop()
	wantClaimed(t, q, request(10), 1)
}
