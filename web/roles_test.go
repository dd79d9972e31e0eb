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

// TestRoles: a dashboard whose user has the observing and the operating role of docs/roles.sql has
// all pages but the schedules, and the actions of an operator. The database itself keeps payloads
// from it.
func TestRoles(t *testing.T) {
	dsn := postgrestest.DSN(t)
	admin := openPostgres(t, dsn)
	var database string
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
	jobs, err := postgres.New(admin, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = jobs.Enqueue(t.Context(), nil, &queue.Job{Kind: "email.welcome", Queue: "mail", MaxAttempts: 1, Payload: []byte(`{"to":"secret"}`)}, &queue.Job{Kind: "report"})
	if err != nil {
		t.Fatal(err)
	}
	fail(t, jobs, "mail", "550 mailbox full")

	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(database+"_ann", "p")
	q, err := postgres.New(openPostgres(t, u.String()), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := siteOf(t, q, web.Options{})
	crawl(t, s)
	s.want("jobs/1", "email.welcome", "550 mailbox full", "may not read payloads")
	for _, action := range []string{"jobs/1/retry", "jobs/2/cancel", "jobs/2/delete"} {
		if a := s.post(action, "reason=because"); !strings.HasSuffix(a.header.Get("Location"), "&n=1") {
			t.Errorf("%s: %d: %s", action, a.status, a.body)
		}
	}
	for _, action := range []string{"queues/mail/pause", "kinds/report/pause"} {
		if a := s.post(action, "paused=true"); a.status != 303 {
			t.Errorf("%s: %d: %s", action, a.status, a.body)
		}
	}
	page := s.want("bulk?action=cancel&status=pending&queue=mail", "<strong>1 job.")
	if a := s.post("bulk", formOn(t, page.body).Encode()); !strings.Contains(a.body, "1 job changed") {
		t.Errorf("bulk: %d: %s", a.status, a.body)
	}
	s.want("audit", "jobs.retry", "jobs.delete", "queues.pause", "kinds.pause", "because")
	s.want("schedules", "Schedules: not known yet") // they have payloads, too
	if log := s.log.String(); strings.Count(log, "level=ERROR") != strings.Count(log, "what=schedules") {
		t.Errorf("the log has errors:\n%s", log)
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

// dropRoles drops the roles whose names begin with the database's. What is left goes with the server.
func dropRoles(admin *sql.DB, database string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var names sql.NullString
	_ = admin.QueryRowContext(ctx, `SELECT string_agg(rolname, ', ') FROM pg_roles WHERE starts_with(rolname, $1)`, database+"_").Scan(&names)
	_, _ = admin.ExecContext(ctx, `DROP OWNED BY `+names.String+` CASCADE`)
	_, _ = admin.ExecContext(ctx, `DROP ROLE `+names.String)
}
