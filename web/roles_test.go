package web_test

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// rolesDatabase returns a database with the roles of docs/roles.sql, and the queue as ann sees it,
// who has the observing and the operating role. The roles' names begin with the database's.
func rolesDatabase(t *testing.T) (admin *sql.DB, database string, q *postgres.Backend) {
	t.Helper()
	dsn := postgrestest.DSN(t)
	admin = openPostgres(t, dsn)
	if err := admin.QueryRowContext(t.Context(), `SELECT current_database()`).Scan(&database); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../docs/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	// Roles belong to the whole server: these have names of their own.
	own := regexp.MustCompile(`\berrand_(migrator|enqueuer|worker|observer|operator)\b`).ReplaceAllString(string(script), database+"_$1")
	t.Cleanup(func() { dropRoles(admin, database) })
	for _, statement := range []string{own, `CREATE ROLE ` + database + `_ann LOGIN PASSWORD 'p' IN ROLE ` + database + `_observer, ` + database + `_operator`} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(database+"_ann", "p")
	q, err = postgres.New(openPostgres(t, u.String()), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return admin, database, q
}

// TestRoles: a dashboard whose user has the observing and the operating role of docs/roles.sql has
// all pages, and the actions of an operator. The database itself keeps payloads from it.
func TestRoles(t *testing.T) {
	admin, database, q := rolesDatabase(t)
	jobs, err := postgres.New(admin, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = jobs.Enqueue(t.Context(), nil, &queue.Job{Kind: "email.welcome", Queue: "mail", MaxAttempts: 1, Payload: []byte(`{"to":"secret"}`)}, &queue.Job{Kind: "report"})
	if err != nil {
		t.Fatal(err)
	}
	fail(t, jobs, "mail", "550 mailbox full")
	nightly := queue.Schedule{Name: "nightly", Spec: "@daily", Job: &queue.Job{Kind: "report", Payload: []byte(`{"to":"secret"}`)}}
	if err := jobs.SetSchedules(t.Context(), nil, nightly); err != nil {
		t.Fatal(err)
	}
	s := siteOf(t, q, web.Options{})
	crawl(t, s)
	s.want("jobs/1", "email.welcome", "550 mailbox full", "may not read payloads")
	for _, action := range []string{"jobs/1/redrive", "jobs/2/cancel", "jobs/2/delete"} {
		if a := s.post(action, "reason=because"); !strings.HasSuffix(a.header.Get("Location"), "&n=1") {
			t.Errorf("%s: %d: %s", action, a.status, a.body)
		}
	}
	for _, action := range []string{"queues/mail/pause", "kinds/report/pause", "schedules/nightly/pause"} {
		if a := s.post(action, "paused=true"); a.status != 303 {
			t.Errorf("%s: %d: %s", action, a.status, a.body)
		}
	}
	page := s.want("bulk?action=cancel&status=pending&queue=mail", "<strong>1 job.")
	if a := s.post("bulk", formOn(t, page.body).Encode()); !strings.Contains(a.body, "1 job changed") {
		t.Errorf("bulk: %d: %s", a.status, a.body)
	}
	s.want("audit", "jobs.redrive", "jobs.delete", "queues.pause", "kinds.pause", "schedules.pause", "because")
	if page := s.want("schedules", "nightly", "report", "Resume nightly"); strings.Contains(page.body, "secret") {
		t.Error("the page of schedules shows a payload")
	}
	if a := s.get("jobs/2"); a.status != 404 || !strings.Contains(a.body, "Job 2 was deleted by a person.") || !strings.Contains(a.body, "because") {
		t.Errorf("a deleted job: %d: %s", a.status, a.body)
	}
	if log := s.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the log has errors:\n%s", log)
	}
	if a := s.post("queues/mail/limits", "running=2"); a.status != 403 || !strings.Contains(a.body, "its user lacks a right") {
		t.Errorf("limits: %d: %s", a.status, a.body)
	}
	if _, err := admin.ExecContext(t.Context(), `GRANT SELECT (payload, headers) ON errand.jobs TO `+database+`_ann`); err != nil {
		t.Fatal(err)
	}
	const noResult = "Output and progress are not shown"
	s.want("jobs/1?values=1", "secret", noResult)
	if _, err := admin.ExecContext(t.Context(), `GRANT SELECT ON errand.results TO `+database+`_ann`); err != nil {
		t.Fatal(err)
	}
	if page := s.want("jobs/1?values=1", "secret"); strings.Contains(page.body, noResult) {
		t.Error("the page of a job says that it does not show the output, which the role may read")
	}
}

// openPostgres opens a database until the test ends.
func openPostgres(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// dropRoles drops the roles whose names begin with the database's. The rest ends with the server.
func dropRoles(admin *sql.DB, database string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var names sql.NullString
	_ = admin.QueryRowContext(ctx, `SELECT string_agg(rolname, ', ') FROM pg_roles WHERE starts_with(rolname, $1)`, database+"_").Scan(&names)
	_, _ = admin.ExecContext(ctx, `DROP OWNED BY `+names.String+` CASCADE`)
	_, _ = admin.ExecContext(ctx, `DROP ROLE `+names.String)
}
