package web_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/web"
)

// TestPostgres: pages and actions work on PostgreSQL, too.
func TestPostgres(t *testing.T) {
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	testDatabase(t, q, db, `ALTER TABLE errand.audit ADD CHECK (false) NOT VALID`)
}

// slowly lists workers slowly: an answer that needs them is kept for keeps at least.
type slowly struct{ *postgres.Backend }

const keeps = 200 * 100 * time.Millisecond

func (b slowly) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	time.Sleep(100 * time.Millisecond)
	return b.Backend.Workers(ctx)
}

// TestLockedTable: while a transaction has locked the table, the page of a job says so, also to a
// person who has just seen the job, whose answer was slow and is therefore kept for long.
func TestLockedTable(t *testing.T) {
	extent.Long(t)
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := siteOf(t, slowly{q}, web.Options{})
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "a"}); err != nil {
		t.Fatal(err)
	}
	s.want("jobs/1", "No worker is alive")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	locked := time.Now()
	for a := s.get("jobs/1"); a.status != 503 || !strings.Contains(a.body, "A transaction has locked the table of jobs"); a = s.get("jobs/1") {
		if time.Since(locked) > keeps { // a busy machine may need several pages to find the lock
			t.Fatalf("status %d: %s", a.status, a.body)
		}
	}
}

// TestSQLite: pages and actions work on SQLite, too, and an action needs one connection only.
func TestSQLite(t *testing.T) {
	db, err := sqlite.Open("sqlite", filepath.Join(t.TempDir(), "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if err := sqlite.Migrate(t.Context(), db, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	testDatabase(t, q, db, `CREATE TRIGGER no_audit BEFORE INSERT ON errand_audit BEGIN SELECT RAISE(ABORT, 'no'); END`)
}

// backend is what a dashboard uses of a backend.
type backend interface {
	queue.Queue
	driver.Scheduler
}

// testDatabase tests a queue in db. After the statement refuseAudit the audit log takes no entry.
func testDatabase(t *testing.T, q backend, db *sql.DB, refuseAudit string) {
	s := siteOf(t, q, web.Options{})
	s.want("", "All well", "No queue has jobs yet")
	err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "email.welcome", Queue: "mail", Payload: json.RawMessage(`{"to":"ann@example.com"}`), MaxAttempts: 1},
		&queue.Job{Kind: "report", Queue: "slow", Delay: time.Hour}, &queue.Job{Kind: "report", Queue: "slow", Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	fail(t, q, "mail", "550 mailbox full")
	schedule := queue.Schedule{Name: "nightly", Spec: "@daily", Job: &queue.Job{Kind: "report"}}
	if err := q.SetSchedules(t.Context(), nil, schedule); err != nil {
		t.Fatal(err)
	}
	if a := s.post("queues/mail/limits", "running=2"); a.status != 303 {
		t.Errorf("limits: %d: %s", a.status, a.body)
	}
	if a := s.post("kinds/report/pause", "paused=true"); a.status != 303 {
		t.Errorf("pause a kind: %d: %s", a.status, a.body)
	}
	if a := s.post("schedules/nightly/pause", "paused=true"); a.status != 303 {
		t.Errorf("pause a schedule: %d: %s", a.status, a.body)
	}
	s.want("", "mail", "slow", "550 mailbox full", "Kind report is paused", "2 at once")
	s.want("jobs?status=dead&queue=mail", "email.welcome")
	s.want("jobs/1?values=1", "ann@example.com", "Attempt 1 failed", "test-worker")
	s.want("queues/slow", "pending")
	s.want("kinds", "of the newest 3 jobs", "Resume report")
	s.want("kinds/email.welcome", "by their last error: 1 job.", "550 mailbox full", "jobs/1")
	s.want("kinds/report", "Resume the kind", "No job is dead or waits", "jobs/3")
	s.want("schedules", "nightly", "Resume nightly")
	crawl(t, s)
	testChanges(t, s)

	// An action whose audit entry cannot be written changes nothing.
	if _, err := db.ExecContext(t.Context(), refuseAudit); err != nil {
		t.Fatal(err)
	}
	if a := s.post("jobs/2/redrive", ""); a.status != 503 {
		t.Errorf("without an audit entry: %d", a.status)
	}
	s.want("jobs?status=cancelled", "#2")
}

// testChanges tests actions on the jobs of testDatabase.
func testChanges(t *testing.T, s *site) {
	t.Helper()
	if a := s.post("jobs/1/redrive", ""); a.header.Get("Location") != "../../jobs/1?did=jobs.redrive&n=1" {
		t.Errorf("retry: %d to %q", a.status, a.header.Get("Location"))
	}
	s.want("workers", "No worker has reported itself")
	s.want("jobs/1", "Why it does not run", "No worker is alive")
	page := s.want("bulk?action=cancel&status=pending&kind=report", "<strong>2 jobs.")
	if a := s.post("bulk", formOn(t, page.body).Encode()); a.status != 200 {
		t.Errorf("bulk: %d: %s", a.status, a.body)
	}
	s.want("jobs?status=cancelled", "#2", "#3")
	page = s.want("bulk?action=redrive&status=cancelled&ticked=1&job=3&job=1", "<strong>1 job.", "1 ticked job left out")
	if a := s.post("bulk", formOn(t, page.body).Encode()); !strings.Contains(a.body, "1 job changed, 0 left alone") {
		t.Errorf("ticked: %d: %s", a.status, a.body)
	}
	if a := s.get("jobs/999"); a.status != 404 || !strings.Contains(a.body, "There has never been a job 999 here.") {
		t.Errorf("no job: %d: %s", a.status, a.body)
	}
	s.want("audit", "jobs.cancel", "ids=2..3", "queues.limit", "jobs.redrive", "schedules.pause")
	if a := s.post("jobs/1/delete", ""); a.status != 303 {
		t.Errorf("delete: %d: %s", a.status, a.body)
	}
}
