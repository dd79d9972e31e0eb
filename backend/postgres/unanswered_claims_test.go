package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// TestUnansweredClaim: the worker's next claim releases what a claim took whose answer was lost,
// without costing an attempt. It releases nothing else: neither jobs that the worker holds, nor
// those of another worker.
func TestUnansweredClaim(t *testing.T) {
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			direct, _ := way{driver: "pgx"}.open(t, dsn)
			s, through := cutting(t, dsn)
			db, _ := w.open(t, through)
			q, other := backend(t, db, postgres.Options{}), backend(t, direct, postgres.Options{})
			once := jobs(50)
			for _, j := range once {
				j.MaxAttempts = 1
			}
			enqueue(t, other, once...)
			held := claim(t, q, 10)
			theirs := claimAs(t, other, "other", 10)

			answer := w.claimed()
			s.on.Store(&answer)
			got, err := q.Claim(t.Context(), request(10)) // without an error where the driver says that it may be repeated
			if s.on.Load() != nil {
				t.Fatalf("got %d jobs, error %v: nothing was cut", len(got), err)
			}
			known := 10 + len(got)
			if n := value[int](t, direct, `SELECT count(*) FROM errand.jobs WHERE locked_by = 'tester'`); n != known+10 {
				t.Fatalf("the worker has %d jobs, want %d, of which it knows %d", n, known+10, known)
			}
			more := append(claim(t, q, 100), got...)
			if len(more) != 30 {
				t.Errorf("claimed %d jobs, want the 10 of the unanswered claim and 20 more", len(more))
			}
			for _, j := range more {
				if j.Attempt != 1 {
					t.Errorf("job %d: attempt %d, want 1", j.ID, j.Attempt)
				}
			}
			if lost, _, err := other.Extend(t.Context(), time.Minute, theirs...); err != nil || len(lost) != 0 {
				t.Errorf("the other worker lost %d jobs, error %v; want none", len(lost), err)
			}
			if lost, _, err := q.Extend(t.Context(), time.Minute, append(held, more...)...); err != nil || len(lost) != 0 {
				t.Errorf("the worker lost %d jobs, error %v; want none", len(lost), err)
			}
		})
	}
}

// claimed is what the server answers when ten jobs are claimed: over lib/pq the claim is a
// transaction of the backend's.
func (w way) claimed() string {
	if w.driver == "postgres" {
		return "COMMIT\x00"
	}
	return "UPDATE 10\x00"
}

// TestUnansweredClaimOfShared: a worker behind two gateways claims at both. After a claim whose
// answer was lost, a claim at the first gateway releases nothing that the worker has claimed at the
// second.
func TestUnansweredClaimOfShared(t *testing.T) {
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			direct, _ := way{driver: "pgx"}.open(t, dsn)
			s, through := cutting(t, dsn)
			db, _ := w.open(t, through)
			first, second := backend(t, db, postgres.Options{}), backend(t, direct, postgres.Options{})
			enqueue(t, second, jobs(40)...)
			req := request(10)
			req.Shared = true

			answer := w.claimed()
			s.on.Store(&answer)
			got, err := first.Claim(t.Context(), req) // without an error where the driver says that it may be repeated
			if s.on.Load() != nil {
				t.Fatalf("got %d jobs, error %v: nothing was cut", len(got), err)
			}
			held := got
			for _, q := range []*postgres.Backend{second, first} {
				more, err := q.Claim(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, more...)
			}
			if want := 20 + len(got); len(held) != want {
				t.Errorf("claimed %d jobs, want %d", len(held), want)
			}
			if lost, _, err := second.Extend(t.Context(), time.Minute, held...); err != nil || len(lost) != 0 {
				t.Errorf("the worker lost %d jobs, error %v; want none", len(lost), err)
			}
			if n := value[int](t, direct, `SELECT count(*) FROM errand.jobs WHERE locked_by = 'tester'`); n != len(held)+10 {
				t.Errorf("the worker has %d jobs, want %d and the 10 of the claim that was not answered", n, len(held))
			}
		})
	}
}

// TestLateClaim: jobs of an unanswered claim that the server commits only after the next claim are
// released as well. Those of claims that were answered since are not.
func TestLateClaim(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(30)...)
	lock, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, lock, `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	claimed := make(chan error, 1)
	go func() {
		_, err := q.Claim(ctx, request(10))
		claimed <- err
	}()
	eventually(t, "the claim has been sent and waits", func() bool {
		return value[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	cancel()
	if err := <-claimed; err == nil {
		t.Fatal("got no error, want one because the claim was cancelled")
	}
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	held := claim(t, q, 10)
	// What the server would have done if the cancellation had come too late.
	exec(t, db, `UPDATE errand.jobs SET status = 'running', attempts = 1, fence = nextval('errand.fences'), locked_by = 'tester',
		locked_at = now(), locked_until = now() + interval '1 minute' WHERE id IN (SELECT id FROM errand.jobs WHERE status = 'pending' LIMIT 10)`)
	all := held
	eventually(t, "all 30 are claimed", func() bool {
		all = append(all, claim(t, q, 30)...)
		return len(all) == 30
	})
	if lost, _, err := q.Extend(t.Context(), time.Minute, all...); err != nil || len(lost) != 0 {
		t.Errorf("lost %d jobs, error %v; want none", len(lost), err)
	}
}

// claimAs claims for that worker.
func claimAs(t *testing.T, q queue.Consumer, worker string, n int) []*queue.Job {
	t.Helper()
	req := request(n)
	req.Worker = worker
	jobs, err := q.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}
