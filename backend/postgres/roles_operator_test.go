package postgres_test

import (
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// testOperator: this role can do all that control.md describes, in one transaction with its audit
// entry, and nothing else.
func (r *roles) testOperator(t *testing.T, db, worker, enqueuer *sql.DB) {
	q, w, e := r.backend(t, db, postgres.Options{}), r.backend(t, worker, postgres.Options{}), r.backend(t, enqueuer, postgres.Options{})
	var all []*queue.Job
	for range 5 {
		all = append(all, &queue.Job{Queue: "operated", Kind: "operated", Group: "g"})
	}
	all[0].Key = "k"
	all[4].Ordered, all[4].Delay = true, time.Hour
	enqueue(t, e, all...)
	one := func(i int) queue.Selection { return queue.Selection{IDs: []int64{all[i].ID}} }
	req := request(1)
	req.Queues = []string{"operated"}
	running, err := w.Claim(t.Context(), req)
	if err != nil || len(running) != 1 {
		t.Fatalf("Claim: got %d, error %v; want 1", len(running), err)
	}

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	want := func(what string, n int, err error, want int) {
		t.Helper()
		if err != nil || n != want {
			t.Errorf("%s: got %d, error %v; want %d", what, n, err, want)
		}
	}
	n, err := q.Cancel(t.Context(), tx, queue.Selection{Group: "g", Queue: "operated"})
	want("Cancel", n, err, 5)
	n, err = q.Redrive(t.Context(), tx, queue.Selection{Kind: "operated", Status: queue.StatusCancelled})
	want("Redrive", n, err, 4)
	n, err = q.Edit(t.Context(), tx, one(1), queue.JobChange{RunNow: true, Priority: new(int32), MaxAttempts: 3})
	want("Edit", n, err, 1)
	n, err = q.Edit(t.Context(), tx, one(2), queue.JobChange{Payload: json.RawMessage(`{"a": 1}`), Queue: "moved", Delay: time.Minute})
	want("Edit of a payload", n, err, 1)
	n, err = q.Delete(t.Context(), tx, queue.Selection{IDs: []int64{all[3].ID, all[4].ID, running[0].ID}})
	want("Delete", n, err, 2)
	pause := func(db queue.DB, target queue.Target, paused bool) {
		t.Helper()
		if changed, err := q.Pause(t.Context(), db, target, paused); !changed || err != nil {
			t.Errorf("Pause(%s, %v): got %v, error %v", target, paused, changed, err)
		}
	}
	group := queue.Target{Group: "g", InQueue: "operated"}
	pause(tx, queue.Target{Kind: "operated"}, true)
	pause(tx, queue.Target{Kind: "operated"}, false)
	pause(tx, queue.Target{Queue: "operated"}, true)
	pause(tx, group, true)
	if err := q.Audit(t.Context(), tx, queue.AuditEntry{Actor: "ada", Action: "tidy", Reason: "incident 7", JobID: all[0].ID}); err != nil {
		t.Errorf("Audit: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	n, err = q.Delete(t.Context(), nil, queue.Selection{Queue: "operated", Status: queue.StatusCompleted})
	want("Delete of completed jobs", n, err, 0)
	pause(nil, queue.Target{Queue: "operated"}, false)
	pause(nil, group, false)
	r.testOperatorSchedules(t, q, e)
	r.testOperatorDenied(t, q, running[0])
	_, asked, err := w.Extend(t.Context(), time.Minute, running...)
	want("Extend asks to cancel", len(asked), err, 1)
}

// testOperatorSchedules: this role pauses and resumes schedules that others have declared. What
// they enqueue stays as it is, and so does the pause when the program declares a new text.
func (r *roles) testOperatorSchedules(t *testing.T, q, enqueuer *postgres.Backend) {
	declare := func(spec string) {
		t.Helper()
		s := queue.Schedule{Name: "operated", Spec: spec, Job: &queue.Job{Kind: "test", Payload: json.RawMessage(`{"a": 1}`)}}
		if n, err := enqueuer.DeclareSchedules(t.Context(), nil, queue.Declaration{Schedules: []queue.Schedule{s}}); n != 1 || err != nil {
			t.Errorf("DeclareSchedules: got %d, error %v; want 1", n, err)
		}
	}
	pause := func(paused bool) {
		t.Helper()
		if changed, err := q.Pause(t.Context(), nil, queue.Target{Schedule: "operated"}, paused); !changed || err != nil {
			t.Errorf("Pause of a schedule, %v: got %v, error %v", paused, changed, err)
		}
	}
	want := func(who string, b *postgres.Backend, paused bool, payload string) {
		t.Helper()
		all, err := b.Schedules(t.Context())
		if err != nil || len(all) != 1 || all[0].Paused != paused || all[0].Next.IsZero() != paused || !all[0].Edited ||
			!all[0].Declared || all[0].Job.Kind != "test" || string(all[0].Job.Payload) != payload {
			t.Errorf("Schedules of %s: got %+v, error %v; want one, paused %v, with the payload %q", who, all, err, paused, payload)
		}
	}
	declare("@hourly")
	pause(true)
	want("the operator", q, true, "")
	want("the enqueuer", enqueuer, true, `{"a": 1}`)
	declare("@daily")
	want("the enqueuer", enqueuer, true, `{"a": 1}`)
	pause(false)
	want("the enqueuer", enqueuer, false, `{"a": 1}`)
	_, err := q.DeleteSchedules(t.Context(), nil, "operated")
	denied(t, "DeleteSchedules", err)
	if n, err := enqueuer.DeleteSchedules(t.Context(), nil, "operated"); n != 1 || err != nil {
		t.Errorf("DeleteSchedules: got %d, error %v", n, err)
	}
}

func (r *roles) testOperatorDenied(t *testing.T, q *postgres.Backend, running *queue.Job) {
	denied(t, "Enqueue", q.Enqueue(t.Context(), nil, jobs(1)...))
	_, err := q.Claim(t.Context(), request(1))
	denied(t, "Claim", err)
	_, err = q.Settle(t.Context(), nil, queue.Outcome{Job: running, Action: queue.Dead, Err: sql.ErrNoRows})
	denied(t, "Settle", err)
	_, _, err = q.Jobs(t.Context(), queue.Filter{})
	denied(t, "Jobs", err)
	_, _, err = q.Job(t.Context(), running.ID)
	denied(t, "Job", err)
	_, _, err = q.Result(t.Context(), running.ID)
	denied(t, "Result", err)
	_, _, err = q.Prune(t.Context())
	denied(t, "Prune", err)
	_, _, err = q.AuditLog(t.Context(), queue.AuditFilter{})
	denied(t, "AuditLog", err)
	denied(t, "SetRules", q.SetRules(t.Context(), nil, queue.Rule{Queue: "operated", Running: 1}))
	denied(t, "SetSchedules", q.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@hourly", Job: &queue.Job{Kind: "test"}}))
}
