package web_test

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
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
	queue.Scheduler
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
	s.want("schedules", "nightly", "Resume nightly")
	crawl(t, s)

	if a := s.post("jobs/1/retry", ""); a.header.Get("Location") != "../../jobs/1?did=jobs.retry&n=1" {
		t.Errorf("retry: %d to %q", a.status, a.header.Get("Location"))
	}
	s.want("workers", "No worker has reported itself")
	s.want("jobs/1", "Why it does not run", "No worker is alive")
	page := s.want("bulk?action=cancel&status=pending&kind=report", "<strong>2 jobs.")
	if a := s.post("bulk", formOn(t, page.body).Encode()); a.status != 200 {
		t.Errorf("bulk: %d: %s", a.status, a.body)
	}
	s.want("jobs?status=cancelled", "#2", "#3")
	s.want("audit", "jobs.cancel", "ids=2..3", "queues.limit", "jobs.retry", "schedules.pause")
	if a := s.post("jobs/1/delete", ""); a.status != 303 {
		t.Errorf("delete: %d: %s", a.status, a.body)
	}

	// An action whose audit entry cannot be written changes nothing.
	if _, err := db.ExecContext(t.Context(), refuseAudit); err != nil {
		t.Fatal(err)
	}
	if a := s.post("jobs/2/retry", ""); a.status != 503 {
		t.Errorf("without an audit entry: %d", a.status)
	}
	s.want("jobs?status=cancelled", "#2")
}
