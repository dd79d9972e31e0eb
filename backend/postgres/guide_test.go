package postgres_test

import (
	"bufio"
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

//go:embed testdata/guide.sql
var guideText string

// guide holds the documented statements by name, to the letter.
var guide = parseGuide(guideText)

func parseGuide(text string) map[string][]string {
	sections := make(map[string]string)
	name := ""
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if after, ok := strings.CutPrefix(line, "-- name: "); ok {
			name = strings.Fields(after)[0]
		} else if !strings.HasPrefix(line, "--") && name != "" {
			sections[name] += line + "\n"
		}
	}
	statements := make(map[string][]string)
	for name, section := range sections {
		for s := range strings.SplitSeq(section, ";\n") {
			if s = strings.TrimSpace(s); s != "" {
				statements[name] = append(statements[name], s)
			}
		}
	}
	return statements
}

// guideDB is a fresh database whose search_path is at errand's schema.
func guideDB(t *testing.T) (*sql.DB, *postgres.Backend) {
	db, err := sql.Open("pgx", postgrestest.DSN(t)+"&search_path=errand")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, backend(t, db, postgres.Options{})
}

func TestGuideStatements(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *sql.DB, *postgres.Backend){
		"enqueue":         guideEnqueue,
		"dequeue":         guideDequeue,
		"complete":        guideComplete,
		"fail":            guideFail,
		"dead":            guideDead,
		"retry_dead":      guideRetryDead,
		"prune_dead":      guidePruneDead,
		"stale":           guideStale,
		"unique":          guideUnique,
		"prune_completed": guidePruneCompleted,
		"archive":         guideArchive,
		"queue_in_tx":     guideQueueInTx,
	} {
		t.Run(name, func(t *testing.T) {
			if len(guide[name]) == 0 {
				t.Fatalf("testdata/guide.sql has no statement %q", name)
			}
			db, q := guideDB(t)
			test(t, db, q)
		})
	}
}

func guideEnqueue(t *testing.T, db *sql.DB, q *postgres.Backend) {
	for _, s := range guide["enqueue"] {
		exec(t, db, s)
	}
	req := request(10)
	req.Queues = []string{"emails", "reports", "default"}
	jobs, err := q.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, j := range jobs {
		got += fmt.Sprintf("%s %s %d %d %s\n", j.Queue, j.Kind, j.Priority, j.MaxAttempts, j.Payload)
	}
	want := `emails default 0 5 {"to": "alice@example.com", "template": "welcome"}
reports default 0 5 {"format": "pdf", "report_id": 42}
default default 10 5 {"task": "cleanup"}
`
	if got != want {
		t.Errorf("errand claims what the guide enqueues as\n%swant\n%s", got, want)
	}
}

// dequeued runs the guide's dequeue, or with batch its variant for ten, and
// returns id, status and attempts of each row.
func dequeued(ctx context.Context, db queue.DB, limit int, queueName, worker string) (ids []int64, err error) {
	text := strings.Replace(guide["dequeue"][0], "LIMIT 1", fmt.Sprintf("LIMIT %d", limit), 1)
	rows, err := db.QueryContext(ctx, "WITH row AS ("+text+") SELECT id FROM row WHERE status = 'running'", queueName, worker)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func guideDequeue(t *testing.T, db *sql.DB, q *postgres.Backend) {
	list := jobs(12)
	list[3].Priority = -1
	enqueue(t, q, list...)
	exec(t, db, guide["dequeue"][0], "default", "w1")
	if got, want := value[int64](t, db, `SELECT id FROM jobs WHERE status = 'running' AND attempts = 1 AND locked_by = 'w1'`), list[3].ID; got != want {
		t.Errorf("dequeue takes job %d, want %d, whose priority is lowest", got, want)
	}
	ids, err := dequeued(t.Context(), db, 10, "default", "w1")
	if err != nil || len(ids) != 10 {
		t.Errorf("dequeue_batch takes %d jobs (%v), want 10", len(ids), err)
	}
	if got := claim(t, q, 10); len(got) != 1 {
		t.Errorf("errand then claims %d jobs, want the 1 left", len(got))
	}
}

func guideComplete(t *testing.T, db *sql.DB, q *postgres.Backend) {
	enqueue(t, q, jobs(1)...)
	held := claim(t, q, 1)
	exec(t, db, guide["complete"][0], held[0].ID)
	lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0], Action: queue.Retry})
	if err != nil || len(lost) != 1 {
		t.Errorf("Settle of a job that the guide's statement completed: lost %d (%v), want 1", len(lost), err)
	}
	if got := value[string](t, db, `SELECT status::text FROM jobs`); got != "completed" {
		t.Errorf("status %s, want completed", got)
	}
}

func guideFail(t *testing.T, db *sql.DB, q *postgres.Backend) {
	list := jobs(2)
	list[1].MaxAttempts = 1
	enqueue(t, q, list...)
	if ids, err := dequeued(t.Context(), db, 2, "default", "w"); err != nil || len(ids) != 2 {
		t.Fatalf("dequeue: %v, %v", ids, err)
	}
	for _, j := range list {
		exec(t, db, guide["fail"][0], j.ID, "boom", "60")
	}
	got := value[string](t, db, `SELECT string_agg(status || ' ' || last_error || ' ' || (scheduled_at > now() + '50 s') || ' ' || (locked_by IS NULL), ', ' ORDER BY id) FROM jobs`)
	if want := "pending boom true true, dead boom false true"; got != want {
		t.Errorf("after fail: %s, want %s", got, want)
	}
	if text := "SELECT now() + make_interval(secs => 30 * power(2, attempts - 1) * (1 + random() * 0.3)) > now() FROM jobs LIMIT 1"; !value[bool](t, db, text) {
		t.Error("fail_backoff is not in the future")
	}
}

func guideDead(t *testing.T, db *sql.DB, q *postgres.Backend) {
	ids := killed(t, q, 2)
	exec(t, db, `UPDATE jobs SET updated_at = updated_at - interval '1 hour' WHERE id = $1`, ids[1])
	if got := value[int64](t, db, guideFirstColumn("dead")); got != ids[0] {
		t.Errorf("dead lists job %d first, want %d, the newest", got, ids[0])
	}
}

func guideFirstColumn(name string) string { return "SELECT id FROM (" + guide[name][0] + ") AS rows" }

// killed enqueues, claims and discards n jobs, of queue emails.
func killed(t *testing.T, q *postgres.Backend, n int) (ids []int64) {
	t.Helper()
	list := jobs(n)
	for _, j := range list {
		j.Queue = "emails"
	}
	enqueue(t, q, list...)
	req := request(n)
	req.Queues = []string{"emails"}
	held, err := q.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range held {
		if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: j, Action: queue.Dead}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	return ids
}

func guideRetryDead(t *testing.T, db *sql.DB, q *postgres.Backend) {
	ids := killed(t, q, 2)
	one := strings.NewReplacer("WHERE status = 'dead'\nAND queue = 'emails'", "WHERE id = $1").Replace(guide["retry_dead"][0])
	exec(t, db, one, ids[0])
	if got := value[int](t, db, `SELECT count(*) FROM jobs WHERE status = 'pending' AND attempts = 0`); got != 1 {
		t.Errorf("retry_dead of one: %d pending, want 1", got)
	}
	exec(t, db, guide["retry_dead"][0])
	if got := value[int](t, db, `SELECT count(*) FROM jobs WHERE status = 'pending' AND attempts = 0`); got != 2 {
		t.Errorf("retry_dead of a queue: %d pending, want 2", got)
	}
}

func guidePruneDead(t *testing.T, db *sql.DB, q *postgres.Backend) {
	ids := killed(t, q, 2)
	exec(t, db, `UPDATE jobs SET updated_at = now() - interval '31 days' WHERE id = $1`, ids[0])
	exec(t, db, guide["prune_dead"][0])
	if got := value[int64](t, db, `SELECT id FROM jobs`); got != ids[1] {
		t.Errorf("prune_dead leaves %d, want %d", got, ids[1])
	}
}

func guideStale(t *testing.T, db *sql.DB, q *postgres.Backend) {
	enqueue(t, q, jobs(2)...)
	held := claim(t, q, 2)
	exec(t, db, `UPDATE jobs SET locked_at = now() - interval '11 minutes'`)
	if _, _, err := q.Extend(t.Context(), time.Minute, held[0]); err != nil {
		t.Fatal(err)
	}
	exec(t, db, guide["stale"][0])
	lost, _, err := q.Extend(t.Context(), time.Minute, held...)
	if err != nil || len(lost) != 1 || lost[0] != held[1] {
		t.Errorf("stale took %v (%v), want only job %d, which was not extended", lost, err, held[1].ID)
	}
}

func guideUnique(t *testing.T, db *sql.DB, q *postgres.Backend) {
	exec(t, db, guide["unique"][0])
	exec(t, db, guide["unique"][0])
	job := &queue.Job{Queue: "emails", Kind: "test", Key: "send-welcome-42"}
	enqueue(t, q, job)
	if got := value[int](t, db, `SELECT count(*) FROM jobs`); got != 1 || !job.Duplicate {
		t.Errorf("%d rows, Duplicate %v, want 1 and true", got, job.Duplicate)
	}
}

func guidePruneCompleted(t *testing.T, db *sql.DB, q *postgres.Backend) {
	completedLongAgo(t, db, q)
	exec(t, db, guide["prune_completed"][0])
	if got := value[int](t, db, `SELECT count(*) FROM jobs`); got != 1 {
		t.Errorf("prune_completed leaves %d rows, want 1", got)
	}
}

// completedLongAgo leaves one job completed eight days ago and one just now.
func completedLongAgo(t *testing.T, db *sql.DB, q *postgres.Backend) {
	t.Helper()
	enqueue(t, q, jobs(2)...)
	held := claim(t, q, 2)
	if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1]}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE errand.jobs SET created_at = now() - interval '9 days', updated_at = now() - interval '8 days' WHERE id = $1`, held[0].ID)
}

func guideArchive(t *testing.T, db *sql.DB, q *postgres.Backend) {
	completedLongAgo(t, db, q)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, s := range guide["archive"] {
		exec(t, tx, s)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	got := value[string](t, db, `SELECT (SELECT count(*) FROM jobs) || ' ' || (SELECT count(*) FROM jobs_archive)`)
	if got != "1 1" {
		t.Errorf("archive leaves %s rows in jobs and jobs_archive, want 1 1", got)
	}
}

func guideQueueInTx(t *testing.T, db *sql.DB, q *postgres.Backend) {
	enqueue(t, q, jobs(1)...)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, guide["queue_in_tx"][0], "default")
	if got := claim(t, q, 1); len(got) != 0 {
		t.Errorf("errand claims %d jobs beside the transaction, want 0", len(got))
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, q, 1); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("after the rollback errand claims %v, want the job's first attempt", got)
	}
}

// TestGuideWorkerBeside runs a worker made of the guide's statements beside
// errand's own on the same table.
func TestGuideWorkerBeside(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	const n = 20_000
	db, q := guideDB(t)
	enqueue(t, q, jobs(n)...)
	runs := make([]atomic.Int32, n+1)
	first := value[int64](t, db, `SELECT min(id) FROM jobs`)
	var left atomic.Int64
	left.Store(n)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ran := func(id int64) {
		runs[id-first].Add(1)
		if left.Add(-1) == 0 {
			stop()
		}
	}
	var byGuide atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- guideWorker(ctx, db, func(id int64) { byGuide.Add(1); ran(id) })
	}()
	mux := queue.NewMux()
	mux.Handle("test", queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		ran(job.ID)
		return nil
	}))
	if err := (engine.Worker{Backend: q, Handler: mux}).Run(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i := range n {
		if got := runs[i].Load(); got != 1 {
			t.Fatalf("job %d ran %d times, want once", first+int64(i), got)
		}
	}
	if got := value[int](t, db, `SELECT count(*) FROM jobs WHERE status = 'completed' AND attempts = 1`); got != n {
		t.Errorf("%d jobs completed at their first attempt, want %d", got, n)
	}
	if g := byGuide.Load(); g == 0 || g == n {
		t.Errorf("the guide's worker ran %d of %d jobs: the two did not run side by side", g, n)
	}
}

func guideWorker(ctx context.Context, db *sql.DB, ran func(id int64)) error {
	for ctx.Err() == nil {
		// What has been claimed must be completed, so neither ends with ctx.
		ids, err := dequeued(context.WithoutCancel(ctx), db, 10, "default", "guide")
		if err != nil {
			return err
		}
		for _, id := range ids {
			ran(id)
			if _, err := db.ExecContext(context.WithoutCancel(ctx), guide["complete"][0], id); err != nil {
				return err
			}
		}
	}
	return nil
}
