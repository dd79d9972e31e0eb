package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestSequencesBehind: after a cut-over by logical replication the sequences are where they began.
// Check and the first error say so, with the statement that mends it; a repair mends all of them.
func TestSequencesBehind(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(5)...)
	claim(t, q, 2)
	entry := queue.AuditEntry{Actor: "me", Action: "delete", Count: 1, JobID: 1 << 50} // of another backend
	if err := q.Audit(t.Context(), nil, entry, entry); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Check(t.Context(), db, postgres.Options{}); err != nil {
		t.Fatalf("Check of a sound schema: %v", err)
	}
	before := value[int64](t, db, `SELECT max(id) FROM errand.jobs`)
	exec(t, db, `SELECT setval('errand.jobs_id_seq', 1, false), setval('errand.audit_id_seq', 1, false), setval('errand.fences', 1, false)`)

	wantSetup := func(name string, err error, sequence string) {
		t.Helper()
		var setup *queue.SetupError
		if !errors.As(err, &setup) || !strings.Contains(setup.Problem, `SELECT setval('"errand".`+sequence) {
			t.Errorf("%s: got %v, want a SetupError with the setval of %s", name, err, sequence)
		}
	}
	wantSetup("Check", postgres.Check(t.Context(), db, postgres.Options{}), "jobs_id_seq")
	for name, job := range map[string]*queue.Job{
		"one": {Kind: "k"}, "with a key": {Kind: "k", Key: "a"}, "in a group": {Kind: "k", Group: "g"},
		"replacing": {Kind: "k", Key: "b", OnDuplicate: queue.Replace},
	} {
		wantSetup("Enqueue of a job "+name, q.Enqueue(t.Context(), nil, job), "jobs_id_seq")
	}
	exec(t, db, `SELECT setval('errand.jobs_id_seq', 1, false)`)
	wantSetup("Enqueue of two", q.Enqueue(t.Context(), nil, jobs(2)...), "jobs_id_seq")
	wantSetup("Audit", q.Audit(t.Context(), nil, entry), "audit_id_seq")
	exec(t, db, `SELECT setval('errand.jobs_id_seq', 1, false)`)
	for _, call := range []string{`SELECT errand.enqueue('default', 'k')`, `SELECT errand.enqueue('default', 'k', job_key => 'c')`} {
		if _, err := db.ExecContext(t.Context(), call); err == nil || !strings.Contains(err.Error(), "jobs_pkey") {
			t.Errorf("%s: got %v, want that the ID is in use", call, err)
		}
	}

	repaired, err := postgres.RepairSequences(t.Context(), db, postgres.Options{})
	if err != nil || len(repaired) != 3 {
		t.Fatalf("RepairSequences: %+v, %v; want three sequences", repaired, err)
	}
	if again, err := postgres.RepairSequences(t.Context(), db, postgres.Options{}); err != nil || len(again) != 0 {
		t.Errorf("RepairSequences again: %+v, %v; want none", again, err)
	}
	if err := postgres.Check(t.Context(), db, postgres.Options{}); err != nil {
		t.Errorf("Check of repaired sequences: %v", err)
	}
	job := &queue.Job{Kind: "k"}
	enqueue(t, q, job)
	if err := q.Audit(t.Context(), nil, entry); err != nil || job.ID <= before {
		t.Errorf("after the repair job %d was written behind %d; Audit: %v", job.ID, before, err)
	}
}

// TestRepairBesideEnqueues: a repair takes no ID back that others draw at the same time.
func TestRepairBesideEnqueues(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(20)...)
	exec(t, db, `UPDATE errand.jobs SET id = id + 2000`)
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error, 4)
	for range cap(failed) {
		go func() {
			var err error
			for ctx.Err() == nil && err == nil {
				if err = q.Enqueue(ctx, nil, jobs(10)...); ctx.Err() != nil {
					err = nil
				}
			}
			failed <- err
		}()
	}
	for range 10 {
		if _, err := postgres.RepairSequences(t.Context(), db, postgres.Options{}); err != nil {
			t.Error(err)
		}
	}
	stop()
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestFencesGoOn: no claim of a job draws a fence that an earlier claim had, if the sequence of
// fences is set back, in each way to claim a job and to take it from its holder. So a stale run
// cannot settle a job that it has lost to a run of the same worker.
func TestFencesGoOn(t *testing.T) {
	t.Parallel()
	ways := map[string]queue.Job{"plain": {}, "ordered": {Group: "g", Ordered: true}, "limited": {Queue: "limited"}}
	losses := map[string]func(t *testing.T, q *postgres.Backend, expire func(), job *queue.Job){
		"reclaim": func(t *testing.T, q *postgres.Backend, expire func(), _ *queue.Job) {
			expire()
			if got, err := q.Reclaim(t.Context(), 10); err != nil || len(got) != 1 {
				t.Fatalf("Reclaim: %v, %v", got, err)
			}
		},
		"retry": func(t *testing.T, q *postgres.Backend, _ func(), job *queue.Job) {
			settle(t, q, queue.Outcome{Job: job, Action: queue.Retry})
		},
		"redrive": func(t *testing.T, q *postgres.Backend, _ func(), job *queue.Job) {
			settle(t, q, queue.Outcome{Job: job, Action: queue.Dead})
			if n, err := q.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{job.ID}}); err != nil || n != 1 {
				t.Fatalf("Redrive: %d, %v", n, err)
			}
		},
	}
	for way, job := range ways {
		for loss, lose := range losses {
			t.Run(way+", "+loss, func(t *testing.T) {
				t.Parallel()
				db, q := fresh(t, postgres.Options{})
				if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: "limited", Running: 5}); err != nil {
					t.Fatal(err)
				}
				job := job
				job.Kind, job.MaxAttempts = "k", 5
				enqueue(t, q, &job)
				req := queue.ClaimRequest{Queues: []string{"default", "limited"}, Limit: 1, Lease: time.Minute, Worker: "w"}
				take := func() *queue.Job {
					t.Helper()
					got, err := q.Claim(t.Context(), req)
					if err != nil || len(got) != 1 {
						t.Fatalf("Claim: %v, %v; want one job", got, err)
					}
					return got[0]
				}
				stale := take()
				lose(t, q, func() {
					exec(t, db, `UPDATE errand.jobs SET locked_at = now() - interval '2 h', locked_until = now() - interval '1 h'`)
				}, stale)
				if rec, _, err := q.Job(t.Context(), job.ID); err != nil || rec.Fence != 0 {
					t.Errorf("record of the job that nobody holds: %+v, %v; want no fence", rec, err)
				}
				exec(t, db, `UPDATE errand.jobs SET scheduled_at = now()`)
				exec(t, db, `SELECT setval('errand.fences', $1, false)`, stale.Fence)
				current := take()
				if current.Fence <= stale.Fence {
					t.Errorf("the second claim has fence %d, want one above %d", current.Fence, stale.Fence)
				}
				if lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: stale}); err != nil || len(lost) != 1 {
					t.Errorf("the stale run settles the job: lost %v, %v", lost, err)
				}
			})
		}
	}
}
