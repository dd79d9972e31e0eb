package explain_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestEachLocker: a row that two transactions share is locked until both have ended, so the remedy
// names both.
func TestEachLocker(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := opstest.Fresh(t)
	id := opstest.Enqueue(t, q, queue.Job{})
	var pids []int
	for range 2 {
		tx := opstest.Begin(t, db)
		opstest.Exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR KEY SHARE`, id)
		var pid int
		if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	time.Sleep(1100 * time.Millisecond)
	r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]
	for _, pid := range pids {
		if end := fmt.Sprintf("pg_terminate_backend(%d)", pid); !strings.Contains(r.Remedy, end) {
			t.Errorf("%s: the remedy is %q, want %s in it", r.ID, r.Remedy, end)
		}
	}
}

// TestExplainPostgres: explain names the causes that only the server knows.
func TestExplainPostgres(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		also   string // a further reason
		make   func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question
	}{
		{"row-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question {
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Exec(t, opstest.Begin(t, db), `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, id)
			time.Sleep(1100 * time.Millisecond)
			return explain.Question{ID: id}
		}},
		{"row-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question {
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Prepare(t, db, `UPDATE errand.jobs SET priority = 1`)
			time.Sleep(1100 * time.Millisecond)
			return explain.Question{ID: id}
		}},
		{"row-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question { // by two, as foreign keys do
			id := opstest.Enqueue(t, q, queue.Job{})
			for range 2 {
				opstest.Exec(t, opstest.Begin(t, db), `SELECT FROM errand.jobs WHERE id = $1 FOR KEY SHARE`, id)
			}
			time.Sleep(1100 * time.Millisecond)
			return explain.Question{ID: id}
		}},
		{"just-due", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question { // it was locked
			id := opstest.Enqueue(t, q, queue.Job{})
			tx := opstest.Begin(t, db)
			opstest.Exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR UPDATE`, id)
			_ = tx.Rollback()
			return explain.Question{ID: id}
		}},
		{"just-due", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question { // by two
			id := opstest.Enqueue(t, q, queue.Job{})
			for range 2 {
				tx := opstest.Begin(t, db)
				opstest.Exec(t, tx, `SELECT FROM errand.jobs WHERE id = $1 FOR KEY SHARE`, id)
				defer func() { _ = tx.Rollback() }()
			}
			return explain.Question{ID: id}
		}},
		{"table-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question {
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Exec(t, opstest.Begin(t, db), `LOCK TABLE errand.jobs IN SHARE ROW EXCLUSIVE MODE`)
			time.Sleep(1100 * time.Millisecond)
			return explain.Question{ID: id}
		}},
		{"table-locked", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question { // also against reading
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Exec(t, opstest.Begin(t, db), `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`)
			return explain.Question{ID: id}
		}},
		{"holder-vanished", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question {
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{queue.DefaultQueue}})
			opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute' WHERE worker = 'w'`)
			return explain.Question{ID: id}
		}},
		{"no-lease", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question { // the guide's claim
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Exec(t, db, `UPDATE errand.jobs SET status = 'running', locked_at = now(), locked_by = 'guide', attempts = 1`)
			return explain.Question{ID: id}
		}},
		{"never-due", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question {
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Exec(t, db, `ALTER DOMAIN errand.due_time DROP CONSTRAINT jobs_values_check`)
			opstest.Exec(t, db, `UPDATE errand.jobs SET scheduled_at = 'infinity'`)
			return explain.Question{ID: id}
		}},
		{"foreign-status", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question {
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Exec(t, db, `UPDATE errand.jobs SET status = 'failed'`)
			return explain.Question{ID: id}
		}},
		{"never-existed", "", func(t *testing.T, _ *sql.DB, q *postgres.Backend) explain.Question {
			return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{}) + 1}
		}},
		{"gone", "", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question { // rolled back
			job := queue.Job{Kind: "test"}
			tx := opstest.Begin(t, db)
			if err := q.Enqueue(t.Context(), tx, &job); err != nil {
				t.Fatal(err)
			}
			_ = tx.Rollback()
			return explain.Question{ID: job.ID}
		}},
		{"uncommitted", "gone", func(t *testing.T, db *sql.DB, q *postgres.Backend) explain.Question {
			job := queue.Job{Kind: "test"}
			if err := q.Enqueue(context.Background(), opstest.Begin(t, db), &job); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			return explain.Question{ID: job.ID}
		}},
		{"archived", "", func(t *testing.T, db *sql.DB, _ *postgres.Backend) explain.Question {
			q := opstest.Backend(t, db, postgres.Options{Retention: queue.Retention{Completed: -1, Archive: true}})
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Done})
			if n, _, err := q.Prune(t.Context()); err != nil || n != 1 {
				t.Fatalf("pruned %d, error %v", n, err)
			}
			return explain.Question{ID: id}
		}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			db, q := opstest.Fresh(t)
			opstest.Report(t, q, opstest.Idle)
			a := opstest.Explain(t, q, c.make(t, db, q))
			if got := len(a.Unknown); got > 0 {
				t.Errorf("not known: %q", a.Unknown)
			}
			got := opstest.ReasonIDs(a)
			if want := strings.TrimSpace(c.reason + " " + c.also); got != want {
				t.Errorf("reasons %s, want %s", got, want)
			}
		})
	}
}

// TestForeignStatus: the remedy of a status that errand does not set is a statement that mends it.
func TestForeignStatus(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Exec(t, db, `UPDATE errand.jobs SET status = 'failed'`)
	_, statement, _ := strings.Cut(opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0].Remedy, ": ")
	opstest.Exec(t, db, statement)
	if jobs := opstest.Claim(t, q, "", time.Minute); len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("claimed %v, want job %d", jobs, id)
	}
}

// TestExplainLockedTable: whatever was asked, the answer is soon who has locked the whole table,
// also for a role that may not see sessions of other roles.
func TestExplainLockedTable(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db := opstest.OpenPQ(t, dsn)
	prefix := opstest.Roles(t, db)
	q := opstest.Backend(t, db, postgres.Options{})
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{Key: "key"})
	observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
	opstest.Exec(t, opstest.Begin(t, db), `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`)
	for _, question := range []explain.Question{{ID: id}, {ID: id + 1}, {Queue: queue.DefaultQueue}, {Kind: "test"}, {Key: "key"}} {
		for role, q := range map[string]*postgres.Backend{"owner": q, "observer": observer} {
			if role == "observer" && question.Key != "" {
				continue // it may not read keys
			}
			t.Run(fmt.Sprintf("%s/%+v", role, question), func(t *testing.T) {
				t.Parallel()
				opstest.WantReason(t, opstest.Explain(t, q, question), "table-locked")
			})
		}
	}
}

// TestPerhapsUncommitted: an answer that there is no job names the open transaction that may hold
// it, and says that to end it loses its jobs.
func TestPerhapsUncommitted(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: "known"})
	opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "q", time.Minute)[0], Action: queue.Done})
	tx := opstest.Begin(t, db)
	var pid int
	if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	job := queue.Job{Queue: "new", Kind: "new", Key: "a key"}
	if err := q.Enqueue(t.Context(), tx, &job); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	for reason, question := range map[string]explain.Question{
		"empty-queue": {Queue: "new"}, "no-such-key": {Key: "a key"}, "unknown-kind": {Kind: "new"}, "nothing-waits": {Kind: "known"}, "gone": {ID: job.ID},
	} {
		a := opstest.Explain(t, q, question)
		r := a.Reasons[0]
		if reason == "gone" {
			reason = "uncommitted gone"
		} else if text := strings.Join(r.Evidence, "\n"); !strings.Contains(text, "perhaps an open transaction has enqueued it") || !strings.Contains(text, fmt.Sprintf("session %d", pid)) {
			t.Errorf("%s: evidence %q, want session %d", reason, text, pid)
		}
		if opstest.ReasonIDs(a) != reason || !strings.HasSuffix(r.Remedy, fmt.Sprintf("let it commit; or, which undoes it and its jobs: SELECT pg_terminate_backend(%d)", pid)) {
			t.Errorf("got %s with the remedy %q, want %s", opstest.ReasonIDs(a), r.Remedy, reason)
		}
	}
	_ = tx.Rollback()
	if r := opstest.Explain(t, q, explain.Question{Queue: "new"}).Reasons[0]; strings.Contains(r.Remedy, "transaction") {
		t.Errorf("without a transaction: %+v", r)
	}
}

// TestNotUncommitted: a transaction that began after a job with a higher ID had started has not
// enqueued the job, so nobody is told to end it. One that began before is named.
func TestNotUncommitted(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db, q := opstest.Fresh(t)
	tx := opstest.Begin(t, db)
	job := queue.Job{Kind: "test"}
	if err := q.Enqueue(t.Context(), tx, &job); err != nil {
		t.Fatal(err)
	}
	_ = tx.Rollback()
	older := opstest.Begin(t, db) // it may have drawn the job's ID
	if err := q.Enqueue(t.Context(), older, &queue.Job{Kind: "test"}); err != nil {
		t.Fatal(err)
	}
	next := opstest.Enqueue(t, q, queue.Job{})
	opstest.Exec(t, db, `UPDATE errand.jobs SET created_at = now() - interval '1 hour'`)
	time.Sleep(1100 * time.Millisecond)
	wantIDs := func(when, want string) (a explain.Answer) {
		t.Helper()
		if a = opstest.Explain(t, q, explain.Question{ID: job.ID}); opstest.ReasonIDs(a) != want || len(a.Unknown) > 0 {
			t.Errorf("%s: got %s, not known %q, want %s", when, opstest.ReasonIDs(a), a.Unknown, want)
		}
		return a
	}
	wantIDs("before a later job has started", "uncommitted gone")
	opstest.Claim(t, q, "", time.Minute)
	wantIDs("beside a transaction that began before", "uncommitted gone")
	_ = older.Rollback()
	time.Sleep(1100 * time.Millisecond)
	if err := q.Enqueue(context.Background(), opstest.Begin(t, db), &queue.Job{Kind: "test"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	a := wantIDs("beside a transaction that began after a later job had started", "gone")
	text := strings.Join(a.Reasons[0].Evidence, "\n")
	if want := fmt.Sprintf("not this one: it began after job %d,", next); !strings.Contains(text, want) {
		t.Errorf("evidence %q, want %s", text, want)
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
			db, q := opstest.Fresh(t)
			stats := driver.MinuteStats{Queue: "other", Kind: "test", Age: time.Minute, Stats: queue.Stats{Done: c.usual.Count(), RunTimes: c.usual}}
			if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: opstest.Idle, Age: time.Minute, Stats: []driver.MinuteStats{stats}}); err != nil {
				t.Fatal(err)
			}
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, `UPDATE errand.jobs SET started_at = now() - $1::text::interval`, c.runsFor)
			opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), c.reason)
		})
	}
}

// usually is n runs in a bucket of a histogram.
func usually(bucket int, n int64) queue.Histogram {
	h := make(queue.Histogram, bucket+1)
	h[bucket] = n
	return h
}

// TestPreparedWriter: a prepared transaction that has written jobs is named.
func TestPreparedWriter(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Prepare(t, db, `INSERT INTO errand.jobs (kind) VALUES ('test')`)
	time.Sleep(1100 * time.Millisecond)
	a := opstest.Explain(t, q, explain.Question{ID: 1})
	if r := a.Reasons[0]; r.ID != "uncommitted" || !strings.HasPrefix(r.Evidence[0], `the prepared transaction "ops_`) || !strings.Contains(r.Remedy, "ROLLBACK PREPARED 'ops_") {
		t.Errorf("got %+v", r)
	}
}
