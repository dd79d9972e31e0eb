package ops_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// cases are faults that every backend can have. make returns what to ask.
var cases = []struct {
	reason string
	level  ops.Level
	make   func(t *testing.T, q backends) ops.Question
}{
	{"completed", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
		return ops.Question{ID: id}
	}},
	{"dead", ops.Fail, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{MaxAttempts: 1})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Retry, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"dead-discarded", ops.Fail, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"dead-crashed", ops.Fail, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{MaxAttempts: 1})
		claim(t, q, "", time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		if jobs, err := q.Reclaim(t.Context(), 10); err != nil || len(jobs) != 1 {
			t.Fatalf("reclaimed %d, error %v", len(jobs), err)
		}
		return ops.Question{ID: id}
	}},
	{"cancelled", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		cancel(t, q, id)
		return ops.Question{ID: id}
	}},
	{"held", ops.Fail, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: held(t, q)}
	}},
	{"behind-held", ops.Fail, func(t *testing.T, q backends) ops.Question {
		held(t, q)
		return ops.Question{ID: enqueue(t, q, queue.Job{Group: "g", Ordered: true})}
	}},
	{"behind-running", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		id := enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		claim(t, q, "", time.Minute)
		return ops.Question{ID: id}
	}},
	{"behind-back-off", ops.Warn, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		id := enqueue(t, q, queue.Job{Group: "g", Ordered: true})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"behind-pending", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Group: "g", Ordered: true, Delay: time.Hour})
		return ops.Question{ID: enqueue(t, q, queue.Job{Group: "g", Ordered: true})}
	}},
	{"running", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		claim(t, q, "", time.Minute)
		return ops.Question{ID: id}
	}},
	{"cancel-asked", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		claim(t, q, "", time.Minute)
		cancel(t, q, id)
		return ops.Question{ID: id}
	}},
	{"lease-expired", ops.Warn, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		claim(t, q, "", time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		return ops.Question{ID: id}
	}},
	{"delayed", ops.OK, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{Delay: time.Hour})}
	}},
	{"back-off", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
		return ops.Question{ID: id}
	}},
	{"put-off", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		time.Sleep(1100 * time.Millisecond)
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Release, Delay: time.Hour})
		return ops.Question{ID: id}
	}},
	{"queue-paused", ops.Warn, func(t *testing.T, q backends) ops.Question {
		if err := q.PauseQueue(t.Context(), nil, "q", true); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-paused", ops.Warn, func(t *testing.T, q backends) ops.Question {
		if err := q.PauseGroup(t.Context(), nil, "q", "g", true); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"kind-paused", ops.Warn, func(t *testing.T, q backends) ops.Question {
		if err := q.PauseKinds(t.Context(), nil, "k"); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: enqueue(t, q, queue.Job{Kind: "k"})}
	}},
	{"queue-limit", ops.Warn, func(t *testing.T, q backends) ops.Question {
		setRules(t, q, queue.Rule{Queue: "q", Running: 1})
		enqueue(t, q, queue.Job{Queue: "q"})
		claim(t, q, "q", time.Minute)
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
	}},
	{"group-limit", ops.Warn, func(t *testing.T, q backends) ops.Question {
		setRules(t, q, queue.Rule{Queue: "q", PerGroup: 5}, queue.Rule{Queue: "q", Group: "g", PerGroup: 1})
		enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
		claim(t, q, "q", time.Minute)
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
	}},
	{"jobs-ahead", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Priority: -1})
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"just-due", ops.OK, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"unexplained", ops.Fail, func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{ScheduledAt: time.Now().Add(-time.Minute)})}
	}},
	{"just-due", ops.OK, func(t *testing.T, q backends) ops.Question { // by its key, in spite of an ended job
		enqueue(t, q, queue.Job{Key: "a key"})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
		enqueue(t, q, queue.Job{Key: "a key"})
		return ops.Question{Key: "a key"}
	}},
	{"completed", ops.OK, func(t *testing.T, q backends) ops.Question { // by its key
		enqueue(t, q, queue.Job{Key: "a key"})
		settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
		return ops.Question{Key: "a key", Queue: queue.DefaultQueue}
	}},
	{"deleted", ops.OK, func(t *testing.T, q backends) ops.Question {
		id := enqueue(t, q, queue.Job{})
		if n, err := q.Delete(t.Context(), nil, queue.Which{IDs: []int64{id}}); err != nil || n != 1 {
			t.Fatalf("deleted %d, error %v", n, err)
		}
		if err := q.Audit(t.Context(), nil, queue.AuditEntry{Actor: "ann", Action: "jobs.delete", Count: 1, JobID: id}); err != nil {
			t.Fatal(err)
		}
		return ops.Question{ID: id}
	}},
	{"no-such-key", ops.Warn, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Key: "a key", Queue: "q"})
		return ops.Question{Key: "a key", Queue: queue.DefaultQueue}
	}},
	{"delayed", ops.OK, func(t *testing.T, q backends) ops.Question { // by its kind: the next one
		enqueue(t, q, queue.Job{Kind: "k", Delay: time.Hour})
		enqueue(t, q, queue.Job{Kind: "other"})
		return ops.Question{Kind: "k"}
	}},
	{"nothing-waits", ops.OK, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Queue: "q"})
		claim(t, q, "q", time.Minute)
		return ops.Question{Queue: "q"}
	}},
	{"empty-queue", ops.Warn, func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{Queue: "emails"})
		return ops.Question{Queue: "email"}
	}},
}

// idle is a worker that serves the queues of all cases, and does nothing.
var idle = queue.WorkerInfo{Name: "idle", Queues: []string{queue.DefaultQueue, "q"}}

// workerCases are faults of workers. In them there is no idle worker.
var workerCases = []struct {
	reason string
	also   string // a further reason
	make   func(t *testing.T, q backends) ops.Question
}{
	{"no-worker", "", func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"queue-not-served", "", func(t *testing.T, q backends) ops.Question {
		run(t, queue.Worker{Backend: q, Handler: blocks, Queues: []string{"emails"}})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "email"})}
	}},
	{"kind-not-handled", "", func(t *testing.T, q backends) ops.Question {
		mux := queue.NewMux()
		mux.Handle("email.send", blocks)
		run(t, queue.Worker{Backend: q, Handler: mux})
		return ops.Question{ID: enqueue(t, q, queue.Job{Kind: "emails.send"})}
	}},
	{"workers-busy", "", func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{})
		run(t, queue.Worker{Backend: q, Handler: blocks, Concurrency: 1, Prefetch: -1})
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"workers-draining", "", func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{})
		run(t, queue.Worker{Backend: q, Handler: blocks, Concurrency: 1, Prefetch: -1})()
		eventually(t, "it has reported that it stops", func() bool { return !workers(t, q)[0].DrainingAt.IsZero() })
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"claims-fail", "", func(t *testing.T, q backends) ops.Question {
		run(t, queue.Worker{Backend: cannotClaim{q}, Handler: blocks, Logger: slog.New(slog.DiscardHandler)})
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"workers-busy", "starved", func(t *testing.T, q backends) ops.Question {
		ago := time.Now().Add(-time.Minute)
		enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		run(t, queue.Worker{Backend: q, Handler: blocks, Queues: []string{"first", "q"}, Concurrency: 1, Prefetch: -1})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
	{"starved", "", func(t *testing.T, q backends) ops.Question {
		ago := time.Now().Add(-time.Minute)
		report(t, q, queue.WorkerInfo{Name: "one", Queues: []string{"first", "q"}})
		enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
}

// cannotClaim is a backend whose claims fail.
type cannotClaim struct{ backends }

func (cannotClaim) Claim(context.Context, queue.ClaimRequest) ([]*queue.Job, error) {
	return nil, errors.New("no connection")
}

// blocks is a handler that returns when its context ends.
var blocks = queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
	<-ctx.Done()
	return ctx.Err()
})

// backends is what the cases need of a backend.
type backends interface {
	queue.Queue
	queue.Inspector
	queue.Canceller
	queue.Pauser
	queue.Ruler
	queue.Reclaimer
	queue.Fleet
	queue.Deleter
	queue.Auditor
}

func cancel(t *testing.T, q queue.Canceller, id int64) {
	t.Helper()
	if n, err := q.Cancel(t.Context(), nil, queue.Which{IDs: []int64{id}}); err != nil || n != 1 {
		t.Fatalf("cancelled %d, error %v", n, err)
	}
}

func setRules(t *testing.T, q queue.Ruler, rules ...queue.Rule) {
	t.Helper()
	if err := q.SetRules(t.Context(), nil, rules...); err != nil {
		t.Fatal(err)
	}
}

// held makes an ordered job of group g that is held, and returns its ID.
func held(t *testing.T, q backends) int64 {
	t.Helper()
	setRules(t, q, queue.Rule{OnDead: queue.HoldDead})
	id := enqueue(t, q, queue.Job{Group: "g", Ordered: true})
	settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
	return id
}

// TestExplain: Explain names each cause, and no other, on every backend.
func TestExplain(t *testing.T) {
	t.Parallel()
	for name, open := range everyBackend {
		for _, c := range cases {
			t.Run(name+"/"+c.reason, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				report(t, q, idle)
				a := explain(t, q, c.make(t, q))
				if len(a.Reasons) != 1 || a.Reasons[0].ID != c.reason || a.Level() != c.level {
					t.Errorf("level %s, want %s for %s alone", a.Level(), c.level, c.reason)
				}
				if len(a.Unknown) > 0 {
					t.Errorf("not known: %q", a.Unknown)
				}
			})
		}
	}
}

// TestExplainWorkers: Explain names what is wrong with the workers, and nothing else.
func TestExplainWorkers(t *testing.T) {
	t.Parallel()
	for name, open := range everyBackend {
		for _, c := range workerCases {
			t.Run(name+"/"+c.reason, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				a := explain(t, q, c.make(t, q))
				if want := strings.TrimSpace(c.reason + " " + c.also); reasonIDs(a) != want || a.Level() == ops.OK {
					t.Errorf("want %s alone, and not ok", want)
				}
			})
		}
	}
}

// everyBackend opens a queue of each backend.
var everyBackend = map[string]func(t *testing.T) backends{
	"memory":   func(*testing.T) backends { return memory.New(memory.Options{}) },
	"postgres": func(t *testing.T) backends { _, q := fresh(t); return q },
	"sqlite":   func(t *testing.T) backends { _, q := freshFile(t); return q },
}

// TestExplainPostgres: Explain names the causes that only the server knows.
func TestExplainPostgres(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		also   string // a further reason
		make   func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question
	}{
		{"row-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question {
			id := enqueue(t, q, queue.Job{})
			exec(t, begin(t, db), `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, id)
			time.Sleep(1100 * time.Millisecond)
			return ops.Question{ID: id}
		}},
		{"row-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question {
			id := enqueue(t, q, queue.Job{})
			prepare(t, db, `UPDATE errand.jobs SET priority = 1`)
			time.Sleep(1100 * time.Millisecond)
			return ops.Question{ID: id}
		}},
		{"table-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question {
			id := enqueue(t, q, queue.Job{})
			exec(t, begin(t, db), `LOCK TABLE errand.jobs IN SHARE ROW EXCLUSIVE MODE`)
			time.Sleep(1100 * time.Millisecond)
			return ops.Question{ID: id}
		}},
		{"holder-vanished", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question {
			id := enqueue(t, q, queue.Job{})
			claim(t, q, "", time.Minute)
			report(t, q, queue.WorkerInfo{Name: "w", Queues: []string{queue.DefaultQueue}})
			exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute' WHERE worker = 'w'`)
			return ops.Question{ID: id}
		}},
		{"no-lease", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question { // the guide's claim
			id := enqueue(t, q, queue.Job{})
			exec(t, db, `UPDATE errand.jobs SET status = 'running', locked_at = now(), locked_by = 'guide', attempts = 1`)
			return ops.Question{ID: id}
		}},
		{"queue-rate", "", func(t *testing.T, _ *sql.DB, q *postgres.Backend) ops.Question {
			setRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1, Per: time.Hour}})
			enqueue(t, q, queue.Job{Queue: "q"})
			claim(t, q, "q", time.Minute)
			return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
		}},
		{"group-rate", "", func(t *testing.T, _ *sql.DB, q *postgres.Backend) ops.Question {
			setRules(t, q, queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 1, Per: time.Hour}})
			enqueue(t, q, queue.Job{Queue: "q", Group: "g"})
			claim(t, q, "q", time.Minute)
			return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "g"})}
		}},
		{"throttled", "", func(t *testing.T, _ *sql.DB, q *postgres.Backend) ops.Question {
			setRules(t, q, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000}})
			enqueue(t, q, queue.Job{Queue: "q"})
			job := claim(t, q, "q", time.Minute)[0]
			settle(t, q, queue.Outcome{Job: job, Action: queue.Release, Delay: time.Hour, Throttle: true})
			return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q"})}
		}},
		{"never-due", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question {
			id := enqueue(t, q, queue.Job{})
			exec(t, db, `ALTER DOMAIN errand.due_time DROP CONSTRAINT jobs_values_check`)
			exec(t, db, `UPDATE errand.jobs SET scheduled_at = 'infinity'`)
			return ops.Question{ID: id}
		}},
		{"foreign-status", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question {
			id := enqueue(t, q, queue.Job{})
			exec(t, db, `UPDATE errand.jobs SET status = 'failed'`)
			return ops.Question{ID: id}
		}},
		{"never-existed", "", func(t *testing.T, _ *sql.DB, q *postgres.Backend) ops.Question {
			return ops.Question{ID: enqueue(t, q, queue.Job{}) + 1}
		}},
		{"gone", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question { // rolled back
			job := queue.Job{Kind: "test"}
			tx := begin(t, db)
			if err := q.Enqueue(t.Context(), tx, &job); err != nil {
				t.Fatal(err)
			}
			_ = tx.Rollback()
			return ops.Question{ID: job.ID}
		}},
		{"uncommitted", "gone", func(t *testing.T, db *sql.DB, q *postgres.Backend) ops.Question {
			job := queue.Job{Kind: "test"}
			if err := q.Enqueue(context.Background(), begin(t, db), &job); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			return ops.Question{ID: job.ID}
		}},
		{"archived", "", func(t *testing.T, db *sql.DB, _ *postgres.Backend) ops.Question {
			q := backend(t, db, postgres.Options{Retention: queue.Retention{Completed: -1, Archive: true}})
			id := enqueue(t, q, queue.Job{})
			settle(t, q, queue.Outcome{Job: claim(t, q, "", time.Minute)[0], Action: queue.Done})
			if n, _, err := q.Prune(t.Context()); err != nil || n != 1 {
				t.Fatalf("pruned %d, error %v", n, err)
			}
			return ops.Question{ID: id}
		}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			db, q := fresh(t)
			report(t, q, idle)
			got := reasonIDs(explain(t, q, c.make(t, db, q)))
			if want := strings.TrimSpace(c.reason + " " + c.also); got != want {
				t.Errorf("reasons %s, want %s", got, want)
			}
		})
	}
}

// TestExplainSQLite: Explain names the causes that only the file knows.
func TestExplainSQLite(t *testing.T) {
	t.Parallel()
	db, q := freshFile(t)
	report(t, q, idle)
	id := enqueue(t, q, queue.Job{})
	wantReason(t, explain(t, q, ops.Question{ID: id + 1}), "never-existed")
	job := enqueue(t, q, queue.Job{})
	exec(t, db, `DELETE FROM errand_jobs WHERE id = $1`, job)
	wantReason(t, explain(t, q, ops.Question{ID: job}), "gone")
	tx := begin(t, db) // has the write lock
	wantReason(t, explain(t, q, ops.Question{ID: id}), "write-locked")
	_ = tx.Rollback()
	wantReason(t, explain(t, q, ops.Question{ID: id}), "just-due")
}

// reasonIDs returns the IDs of the reasons.
func reasonIDs(a ops.Answer) string {
	var ids []string
	for _, r := range a.Reasons {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func wantReason(t *testing.T, a ops.Answer, id string) {
	t.Helper()
	if len(a.Reasons) != 1 || a.Reasons[0].ID != id {
		t.Errorf("reasons %+v, want %s alone", a.Reasons, id)
	}
}

// TestRunsLong: whether a job runs long depends on how long its kind usually runs.
func TestRunsLong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runsFor string
		usual   queue.Histogram // of the kind's last runs
		reason  string
	}{
		{"9 minutes", nil, "running"},
		{"11 minutes", nil, "runs-long"},
		{"11 minutes", usually(22, 99), "runs-long"}, // too few to tell
		{"50 seconds", usually(0, 100), "running"},
		{"2 minutes", usually(0, 100), "runs-long"},
		{"2 minutes", usually(18, 100), "running"}, // up to 4 minutes
		{"9 minutes", usually(18, 100), "runs-long"},
		{"1 hour", usually(22, 100), "running"}, // up to 70 minutes
	} {
		t.Run(c.runsFor+"/"+c.reason, func(t *testing.T) {
			t.Parallel()
			db, q := fresh(t)
			stats := queue.MinuteStats{Queue: "other", Kind: "test", Age: time.Minute, Stats: queue.Stats{Done: c.usual.Count(), RunTimes: c.usual}}
			if err := q.ReportWorker(t.Context(), queue.WorkerReport{WorkerInfo: idle, Age: time.Minute, Stats: []queue.MinuteStats{stats}}); err != nil {
				t.Fatal(err)
			}
			id := enqueue(t, q, queue.Job{})
			claim(t, q, "", time.Minute)
			exec(t, db, `UPDATE errand.jobs SET started_at = now() - $1::text::interval`, c.runsFor)
			wantReason(t, explain(t, q, ops.Question{ID: id}), c.reason)
		})
	}
}

// usually is n runs in a bucket of a histogram.
func usually(bucket int, n int64) queue.Histogram {
	h := make(queue.Histogram, bucket+1)
	h[bucket] = n
	return h
}

// TestRemedy: names with characters that mean something to a shell are quoted.
func TestRemedy(t *testing.T) {
	q := memory.New(memory.Options{})
	if err := q.PauseGroup(t.Context(), nil, "q", "it's $(me)", true); err != nil {
		t.Fatal(err)
	}
	a := explain(t, q, ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", Group: "it's $(me)"})})
	if got, want := a.Reasons[0].Remedy, `errand queues resume q --group 'it'\''s $(me)'`; got != want {
		t.Errorf("got the remedy %s, want %s", got, want)
	}
}

// TestQuestions: a bad question is an error that names its field.
func TestQuestions(t *testing.T) {
	q := memory.New(memory.Options{})
	for _, question := range []ops.Question{{}, {ID: -1}, {ID: 1, Queue: "q"}, {Key: "k", Kind: "k"}} {
		_, err := ops.Explain(t.Context(), q, question)
		if _, ok := errors.AsType[*queue.InvalidError](err); !ok {
			t.Errorf("%+v: error %v", question, err)
		}
	}
}
