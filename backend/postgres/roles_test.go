package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// roles are those of docs/roles.sql in a database of their own, under names that no other
// test uses: roles belong to the whole server.
type roles struct {
	dsn    string
	prefix string
	admin  *sql.DB
	o      postgres.Options
}

// newRoles makes the user that runs the script: no superuser, because not everybody has one.
func newRoles(t *testing.T) *roles {
	t.Helper()
	dsn := postgrestest.DSN(t)
	root, _ := ways[0].open(t, dsn)
	r := &roles{dsn: dsn, prefix: value[string](t, root, `SELECT current_database()`) + "_", o: postgres.Options{Schema: "Select_1"}}
	t.Cleanup(func() { r.drop(root) })
	exec(t, root, `REVOKE CREATE ON SCHEMA public FROM PUBLIC`) // as it is from PostgreSQL 15 on
	exec(t, root, `CREATE ROLE `+r.prefix+`admin LOGIN CREATEROLE PASSWORD 'p'`)
	exec(t, root, `GRANT CREATE ON DATABASE `+strings.TrimSuffix(r.prefix, "_")+` TO `+r.prefix+`admin`)
	r.admin = r.login(t, "admin", "")
	return r
}

// drop removes the roles and what they own. It reports nothing: what is left goes with the server.
func (r *roles) drop(root *sql.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var names sql.NullString
	_ = root.QueryRowContext(ctx, `SELECT string_agg(rolname, ', ') FROM pg_roles WHERE starts_with(rolname, $1)`, r.prefix).Scan(&names)
	_, _ = root.ExecContext(ctx, `DROP OWNED BY `+names.String+` CASCADE`)
	_, _ = root.ExecContext(ctx, `DROP ROLE `+names.String)
}

// login connects as a user whose name is the prefix and name, with this role set if it is not "".
func (r *roles) login(t *testing.T, name, role string) *sql.DB {
	t.Helper()
	u, err := url.Parse(r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(r.prefix+name, "p")
	if role != "" {
		q := u.Query()
		q.Set("role", role)
		u.RawQuery = q.Encode()
	}
	db, _ := ways[0].open(t, u.String())
	return db
}

// user is a new user who has been granted the role.
func (r *roles) user(t *testing.T, role string) *sql.DB {
	t.Helper()
	exec(t, r.admin, fmt.Sprintf(`CREATE ROLE %s%s_user LOGIN PASSWORD 'p' IN ROLE %[1]s%[2]s`, r.prefix, role))
	return r.login(t, role+"_user", "")
}

// script is docs/roles.sql with this test's names, as its first lines say.
func (r *roles) script(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\berrand_(migrator|enqueuer|worker|observer|operator)\b`).ReplaceAllString(string(text), r.prefix+"$1")
	return regexp.MustCompile(`\berrand\b`).ReplaceAllString(named, `"`+r.o.Schema+`"`)
}

// run runs the script as a migration tool does: in a transaction, in one call without parameters.
func (r *roles) run(t *testing.T) {
	t.Helper()
	tx, err := r.admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, r.script(t))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// psql runs the script as its first lines say, and returns what psql prints.
func (r *roles) psql(t *testing.T) (output string) {
	t.Helper()
	path, err := osexec.LookPath("psql")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no psql to run docs/roles.sql with")
	}
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(r.prefix+"admin", "p")
	cmd := osexec.Command(path, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", "-", u.String())
	cmd.Stdin = strings.NewReader(r.script(t))
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, text)
	}
	return string(text)
}

// ready has migrated with a tool, as a user of its own, and then run the script once.
func ready(t *testing.T) *roles {
	t.Helper()
	r := newRoles(t).migrated(t)
	r.run(t)
	return r
}

// denied checks that the server refuses for want of privileges.
func denied(t *testing.T, what string, err error) {
	t.Helper()
	if sqlState(err) != "42501" {
		t.Errorf("%s: got error %v, want 42501, permission denied", what, err)
	}
}

func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// statement is a file of the sql folder, in the roles' schema.
func (r *roles) statement(name string) string {
	return strings.ReplaceAll(postgres.Statement(name), `"errand".`, `"`+r.o.Schema+`".`)
}

func (r *roles) backend(t *testing.T, db *sql.DB, o postgres.Options) *postgres.Backend {
	t.Helper()
	o.Schema = r.o.Schema
	return backend(t, db, o)
}

// TestRoles: each role can do its work through errand, and nothing else.
func TestRoles(t *testing.T) {
	r := ready(t)
	enqueuer, worker, observer, operator := r.user(t, "enqueuer"), r.user(t, "worker"), r.user(t, "observer"), r.user(t, "operator")
	users := map[string]*sql.DB{"enqueuer": enqueuer, "worker": worker, "observer": observer, "operator": operator}
	t.Run("enqueuer", func(t *testing.T) { r.testEnqueuer(t, enqueuer) })
	t.Run("worker", func(t *testing.T) { r.testWorker(t, worker, enqueuer) })
	t.Run("notify", func(t *testing.T) { r.testNotify(t, worker, enqueuer) })
	t.Run("retention", func(t *testing.T) { r.testRetention(t, worker, enqueuer) })
	t.Run("dedup", func(t *testing.T) { r.testDedup(t, worker) })
	t.Run("receive", func(t *testing.T) { r.testReceive(t, worker, enqueuer) })
	t.Run("schedules", func(t *testing.T) { r.testSchedules(t, worker, enqueuer, observer) })
	t.Run("audit", func(t *testing.T) { r.testAudit(t, worker, observer) })
	t.Run("observer", func(t *testing.T) { r.testObserver(t, observer, enqueuer) })
	t.Run("operator", func(t *testing.T) { r.testOperator(t, operator, worker, enqueuer) })
	t.Run("denied", func(t *testing.T) { r.testDenied(t, users) })
	t.Run("refused", func(t *testing.T) { r.testRefused(t, enqueuer) })
	t.Run("columns", r.testColumns)
	for name, db := range users {
		if err := postgres.Check(t.Context(), db, r.o); err != nil {
			t.Errorf("Check as %s: %v", name, err)
		}
	}
}

func (r *roles) testEnqueuer(t *testing.T, db *sql.DB) {
	q := r.backend(t, db, postgres.Options{})
	keyed := &queue.Job{Kind: "test", Key: "k", Priority: 1, MaxAttempts: 2, Delay: time.Second, Headers: map[string]string{"a": "b"}}
	enqueue(t, q, &queue.Job{Kind: "test"})
	enqueue(t, q, jobs(3)...)
	enqueue(t, q, keyed)
	again := &queue.Job{Kind: "test", Key: "k"}
	enqueue(t, q, &queue.Job{Kind: "test"}, again)
	if !again.Duplicate || again.ID != keyed.ID {
		t.Errorf("the key again: got Duplicate %v, ID %d; want true, %d", again.Duplicate, again.ID, keyed.ID)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Enqueue(t.Context(), tx, jobs(2)...); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	exec(t, db, `SELECT "Select_1".enqueue('default', 'test', '{"a": 1}')`)
	next := &queue.Job{Kind: "test", Key: "k", OnDuplicate: queue.Replace, Delay: time.Second}
	enqueue(t, q, next)
	if !next.Replaced || next.ID != keyed.ID {
		t.Errorf("the key again, with Replace: got Replaced %v, ID %d; want true, %d", next.Replaced, next.ID, keyed.ID)
	}
	if got := value[int64](t, db, `SELECT "Select_1".enqueue('default', 'test', job_key => 'k', delay => '1 s', on_duplicate => 'replace')`); got != keyed.ID {
		t.Errorf("the key again, by SQL with replace: got id %d, want %d", got, keyed.ID)
	}
	if got := value[int64](t, db, `SELECT "Select_1".enqueue('default', 'test', job_key => 'k')`); got != keyed.ID {
		t.Errorf("the key again, by SQL: got id %d, want %d", got, keyed.ID)
	}
	_, err = q.Claim(t.Context(), request(1))
	denied(t, "Claim", err)
	_, _, err = q.Jobs(t.Context(), queue.Filter{})
	denied(t, "Jobs", err)
	_, _, err = q.Job(t.Context(), keyed.ID)
	denied(t, "Job", err)
	_, err = q.Redrive(t.Context(), nil, queue.Selection{Kind: "test"})
	denied(t, "Redrive", err)
	_, _, err = q.Prune(t.Context())
	denied(t, "Prune", err)
	denied(t, "SetRules", q.SetRules(t.Context(), nil, queue.Rule{Running: 1}))
}

// testRules: the working role sets rules, keeps them, and removes them.
func (r *roles) testRules(t *testing.T, worker, enqueuer *postgres.Backend) {
	for _, rule := range []queue.Rule{{Queue: "limited", Running: 2}, {Queue: "limited", Share: 1, PerGroup: 2}} {
		setRules(t, worker, rule)
		ordered := &queue.Job{Queue: "limited", Kind: "test", Group: "o", Ordered: true}
		enqueue(t, enqueuer, &queue.Job{Queue: "limited", Kind: "test", Group: "g"}, ordered)
		req := request(5)
		req.Queues = []string{"limited"}
		held, err := worker.Claim(t.Context(), req)
		if err != nil || len(held) != 2 {
			t.Fatalf("claimed %d jobs with %+v, error %v; want 2", len(held), rule, err)
		}
		r.settle(t, worker, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1]})
	}
	setRules(t, worker, queue.Rule{Queue: "limited"})
}

func (r *roles) testWorker(t *testing.T, db, enqueuer *sql.DB) {
	q := r.backend(t, db, postgres.Options{})
	r.testRules(t, q, r.backend(t, enqueuer, postgres.Options{}))
	enqueue(t, r.backend(t, enqueuer, postgres.Options{}), jobs(10)...)
	held := claim(t, q, 7)
	if len(held) != 7 {
		t.Fatalf("claimed %d jobs, want 7", len(held))
	}
	if lost, _, err := q.Extend(t.Context(), time.Minute, held...); err != nil || len(lost) != 0 {
		t.Errorf("Extend: lost %v, error %v", lost, err)
	}
	r.settle(t, q, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1]})
	r.settle(t, q, queue.Outcome{Job: held[2]}, queue.Outcome{Job: held[3], Action: queue.Retry, Err: os.ErrInvalid},
		queue.Outcome{Job: held[4], Action: queue.Dead, Err: os.ErrInvalid}, queue.Outcome{Job: held[5], Action: queue.Release})
	exec(t, db, `UPDATE "Select_1".jobs SET locked_until = locked_at + interval '1 microsecond', locked_at = locked_at - interval '1 hour' WHERE id = $1`, held[6].ID)
	if back, err := q.Reclaim(t.Context(), 10); err != nil || len(back) != 1 {
		t.Errorf("Reclaim: got %v, error %v; want 1 job", back, err)
	}
	if n, err := q.Redrive(t.Context(), nil, queue.Selection{Kind: "test"}); err != nil || n != 1 {
		t.Errorf("Redrive: got %d, error %v; want 1", n, err)
	}
	if n, err := q.Delete(t.Context(), nil, queue.Selection{IDs: []int64{held[0].ID}}); err != nil || n != 1 {
		t.Errorf("Delete: got %d, error %v; want 1", n, err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if job, err := q.ClaimTx(t.Context(), tx, request(1)); err != nil || job == nil {
		t.Errorf("ClaimTx: got %v, error %v; want a job", job, err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if records, _, err := q.Jobs(t.Context(), queue.Filter{}); err != nil || len(records) == 0 {
		t.Errorf("Jobs: got %d, error %v; want some", len(records), err)
	}
	exec(t, db, r.statement("probe"), "{default}", nil)
	denied(t, "Enqueue of one", q.Enqueue(t.Context(), nil, jobs(1)...))
	denied(t, "Enqueue of many", q.Enqueue(t.Context(), nil, jobs(2)...))
	denied(t, "Enqueue with a key", q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Key: "w"}))
}

// testSchedules: the enqueueing role sets schedules. A worker fires them if it has that role, too.
func (r *roles) testSchedules(t *testing.T, worker, enqueuer, observer *sql.DB) {
	q := r.backend(t, enqueuer, postgres.Options{})
	s := queue.Schedule{Name: "a", Spec: "@hourly", Job: &queue.Job{Kind: "test", Payload: json.RawMessage(`{"to": "secret"}`)}}
	if err := q.SetSchedules(t.Context(), nil, s); err != nil {
		t.Error(err)
	}
	if n, err := q.DeclareSchedules(t.Context(), nil, queue.Declaration{Schedules: []queue.Schedule{s}}); n != 1 || err != nil {
		t.Errorf("DeclareSchedules: got %d, error %v", n, err)
	}
	exec(t, enqueuer, `UPDATE "Select_1".schedules SET next_at = now()`)
	w := r.backend(t, worker, postgres.Options{})
	_, _, err := w.FireSchedules(t.Context())
	denied(t, "FireSchedules", err)
	if fired, _, again := w.FireSchedules(t.Context()); fired != 0 || !errors.Is(again, err) {
		t.Errorf("FireSchedules again: got %d, error %v; want that error for a minute", fired, again)
	}
	if _, err := w.Sleep(t.Context(), "w", []string{"q"}); err != nil {
		t.Error(err)
	}
	exec(t, r.admin, fmt.Sprintf(`CREATE ROLE %sboth_user LOGIN PASSWORD 'p' IN ROLE %[1]sworker, %[1]senqueuer`, r.prefix))
	both := r.backend(t, r.login(t, "both_user", ""), postgres.Options{})
	if fired, _, err := both.FireSchedules(t.Context()); fired != 1 || err != nil {
		t.Errorf("FireSchedules with both roles: got %d, error %v", fired, err)
	}
	denied(t, "SetSchedules", w.SetSchedules(t.Context(), nil, s))
	exec(t, observer, `SELECT name, next_at FROM "Select_1".schedules`)
	for _, column := range []string{"job", "digest"} {
		_, err = observer.ExecContext(t.Context(), `SELECT `+column+` FROM "Select_1".schedules`)
		denied(t, "SELECT "+column, err)
	}
	o := r.backend(t, observer, postgres.Options{})
	seen, err := o.Schedules(t.Context())
	if err != nil || len(seen) != 1 || seen[0].Name != "a" || !seen[0].Declared || seen[0].Next.IsZero() || seen[0].Job.Kind != "test" || seen[0].Job.Payload != nil {
		t.Errorf("an observer's Schedules: got %+v, error %v; want a, without its payload", seen, err)
	}
	_, err = o.Pause(t.Context(), nil, queue.Target{Schedule: "a"}, true)
	denied(t, "Pause of a schedule", err)
	if n, err := q.DeleteSchedules(t.Context(), nil, "a"); n != 1 || err != nil {
		t.Errorf("DeleteSchedules: got %d, error %v", n, err)
	}
}

func (r *roles) settle(t *testing.T, q *postgres.Backend, outcomes ...queue.Outcome) {
	t.Helper()
	if lost, err := q.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) != 0 {
		t.Errorf("Settle: lost %v, error %v", lost, err)
	}
}

// testNotify: the worker listens and sleeps, each way of enqueueing wakes it, and it leaves the
// list of those asleep.
func (r *roles) testNotify(t *testing.T, db, enqueuer *sql.DB) {
	q := r.backend(t, db, postgres.Options{Listen: pgxlisten.Listen})
	e := r.backend(t, enqueuer, postgres.Options{})
	woken := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Listen(ctx, "w", []string{"bell"}, func(s driver.Signal) {
			if !s.Jobs {
				return
			}
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	await(t, woken)
	for _, ring := range []func(){
		func() { enqueue(t, e, &queue.Job{Queue: "bell", Kind: "test"}) },
		func() {
			enqueue(t, e, &queue.Job{Queue: "bell", Kind: "test"}, &queue.Job{Queue: "bell", Kind: "test"})
		},
		func() { enqueue(t, e, &queue.Job{Queue: "bell", Kind: "test", Key: "k"}) },
		func() { exec(t, enqueuer, `SELECT "Select_1".enqueue('bell', 'test')`) },
	} {
		if _, err := q.Sleep(t.Context(), "w", []string{"bell"}); err != nil {
			t.Fatal(err)
		}
		ring()
		await(t, woken)
		eventually(t, "the woken worker is off the list", func() bool {
			return value[int](t, db, `SELECT count(*) FROM "Select_1".sleepers`) == 0
		})
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Listen: %v", err)
	}
}

// testRetention: what is not kept is deleted by settling, and by pruning, or goes to the archive.
func (r *roles) testRetention(t *testing.T, db, enqueuer *sql.DB) {
	enqueue(t, r.backend(t, enqueuer, postgres.Options{}), jobs(2)...)
	q := r.backend(t, db, postgres.Options{Retention: queue.Retention{Completed: -1, Dead: -1}})
	held := claim(t, q, 2)
	r.settle(t, q, queue.Outcome{Job: held[0]})
	r.settle(t, q, queue.Outcome{Job: held[1], Action: queue.Dead})
	archiver := r.backend(t, db, postgres.Options{Retention: queue.Retention{Completed: -1, Dead: -1, Archive: true}})
	if n, _, err := archiver.Prune(t.Context()); err != nil || n == 0 {
		t.Errorf("Prune: got %d, error %v; want some", n, err)
	}
}

// testDedup: a worker's handlers remember keys, and sweep those whose window is long over, with the
// statement of middleware.SQLDedup.
func (r *roles) testDedup(t *testing.T, db *sql.DB) {
	text, err := os.ReadFile("../../middleware/dedup_once.sql")
	if err != nil {
		t.Fatal(err)
	}
	once := strings.ReplaceAll(string(text), "errand_dedup", `"Select_1".dedup`)
	exec(t, r.admin, `INSERT INTO "Select_1".dedup VALUES ('over', now() - interval '1 hour')`)
	for _, key := range []string{"k", "k", "other"} {
		exec(t, db, once, key, time.Hour.Microseconds())
	}
	if n := value[int](t, db, `SELECT count(*) FROM "Select_1".dedup WHERE key <> 'over'`); n != 2 {
		t.Errorf("%d keys are remembered, want 2", n)
	}
	if n := value[int](t, db, `SELECT count(*) FROM "Select_1".dedup`); n != 2 {
		t.Errorf("%d keys are in the table, want the 2 whose window is open", n)
	}
}

func (r *roles) testObserver(t *testing.T, db, enqueuer *sql.DB) {
	job := &queue.Job{Kind: "seen", Key: "seen", Payload: []byte(`"secret"`), Headers: map[string]string{"token": "secret"}}
	enqueue(t, r.backend(t, enqueuer, postgres.Options{}), job)
	q := r.backend(t, db, postgres.Options{})
	if counts, err := q.Counts(t.Context()); err != nil || len(counts) == 0 {
		t.Errorf("Counts: got %v, error %v; want some", counts, err)
	}
	if backlogs, err := q.Backlogs(t.Context()); err != nil || len(backlogs) == 0 {
		t.Errorf("Backlogs: got %v, error %v; want some", backlogs, err)
	}
	exec(t, db, r.statement("count_sample"), 0.25) // what Counts asks of a long table
	for _, f := range []queue.Filter{{Kind: "seen"}, {Kind: "seen", Status: queue.StatusPending}, {Key: "seen", Queue: queue.DefaultQueue, Limit: 1}} {
		page, _, err := q.Jobs(t.Context(), f)
		if err != nil || len(page) != 1 {
			t.Fatalf("Jobs(%+v): got %d, error %v; want the job", f, len(page), err)
		}
		wantObserved(t, page[0], job)
	}
	record, ok, err := q.Job(t.Context(), job.ID)
	if err != nil || !ok {
		t.Fatalf("Job: got %v, error %v; want the job", ok, err)
	}
	wantObserved(t, record, job)
	r.testBare(t, q, job)
	r.testDocumentedQueries(t, db)
	denied(t, "Enqueue", q.Enqueue(t.Context(), nil, jobs(1)...))
	_, err = q.Claim(t.Context(), request(1))
	denied(t, "Claim", err)
	_, err = q.Sleep(t.Context(), "w", []string{"default"})
	denied(t, "Sleep", err)
	_, err = q.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{job.ID}})
	denied(t, "Redrive", err)
	denied(t, "SetRules", q.SetRules(t.Context(), nil, queue.Rule{Running: 1}))
	if _, err := q.Rules(t.Context()); err != nil {
		t.Errorf("Rules: %v", err)
	}
}

// testAudit: who acts appends to the audit log, and an observer reads it.
func (r *roles) testAudit(t *testing.T, actor, observer *sql.DB) {
	q := r.backend(t, actor, postgres.Options{})
	if err := q.Audit(t.Context(), nil, queue.AuditEntry{Actor: "ada", Action: "cancel", JobID: 1}); err != nil {
		t.Errorf("Audit: %v", err)
	}
	_, _, err := q.AuditLog(t.Context(), queue.AuditFilter{})
	denied(t, "AuditLog", err)
	q = r.backend(t, observer, postgres.Options{})
	for _, f := range []queue.AuditFilter{{}, {JobID: 1}} {
		if page, _, err := q.AuditLog(t.Context(), f); err != nil || len(page) == 0 || page[0].Actor != "ada" {
			t.Errorf("AuditLog(%+v): got %+v, error %v; want the entry", f, page, err)
		}
	}
}

// testBare: a bare list needs no right to what enqueuers and handlers have put into jobs, and says
// nothing of rights.
func (r *roles) testBare(t *testing.T, observer *postgres.Backend, job *queue.Job) {
	exec(t, r.admin, fmt.Sprintf(`CREATE ROLE %sbare_user LOGIN PASSWORD 'p'`, r.prefix))
	exec(t, r.admin, fmt.Sprintf(`GRANT USAGE ON SCHEMA "Select_1" TO %sbare_user`, r.prefix))
	exec(t, r.admin, fmt.Sprintf(`GRANT SELECT (id, queue, kind, status, priority, scheduled_at, attempts, max_attempts, locked_at,
		locked_by, locked_until, fence, created_at, updated_at, started_at, finished_at, redriven_at, redrives, job_group, cancel_at, cost)
		ON "Select_1".jobs TO %sbare_user`, r.prefix))
	strict := r.backend(t, r.login(t, "bare_user", ""), postgres.Options{})
	for _, q := range []*postgres.Backend{observer, strict} {
		for _, f := range []queue.Filter{{Kind: "seen", Bare: true}, {Kind: "seen", Bare: true, Status: queue.StatusPending}} {
			page, _, err := q.Jobs(t.Context(), f)
			if err != nil || len(page) != 1 || page[0].ID != job.ID || page[0].Key != "" || page[0].Payload != nil || page[0].Unreadable != nil {
				t.Errorf("Jobs(%+v): got %+v, error %v; want job %d, bare and not Unreadable", f, page, err, job.ID)
			}
		}
	}
	_, _, err := strict.Jobs(t.Context(), queue.Filter{Kind: "seen"})
	denied(t, "a list that is not bare", err)
}

// wantObserved checks that an observer sees all of the job but what it carries, and is told so.
func wantObserved(t *testing.T, got queue.Record, job *queue.Job) {
	t.Helper()
	if got.ID != job.ID || got.Kind != job.Kind || got.Key != job.Key || got.Status != queue.StatusPending || got.CreatedAt.IsZero() {
		t.Errorf("got %+v, want job %d", got, job.ID)
	}
	if got.Payload != nil || got.Headers != nil || got.Unreadable == nil || !strings.Contains(got.Unreadable.Error(), "may not read payloads") {
		t.Errorf("got payload %s, headers %v, Unreadable %v; want none of them, and why", got.Payload, got.Headers, got.Unreadable)
	}
}

// testDocumentedQueries: an observer may run each SELECT of sql.md, except for the function that
// enqueues. TestRolesOfOperations runs those of operations.md.
func (r *roles) testDocumentedQueries(t *testing.T, db *sql.DB) {
	t.Helper()
	text, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for _, block := range regexp.MustCompile("(?s)\n```sql\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		for _, statement := range regexp.MustCompile(`(?m)^SELECT [^;]*;`).FindAllString(block[1], -1) {
			if strings.HasPrefix(statement, "SELECT enqueue(") {
				continue
			}
			n++
			exec(t, db, strings.ReplaceAll(statement, "FROM jobs", `FROM "Select_1".jobs`))
		}
	}
	if n == 0 {
		t.Error("found no statement in sql.md")
	}
}

// testDenied is what each role tries beside errand.
func (r *roles) testDenied(t *testing.T, users map[string]*sql.DB) {
	all := []string{"enqueuer", "worker", "observer", "operator"}
	for _, c := range []struct {
		roles     []string
		statement string
	}{
		{[]string{"enqueuer", "observer"}, `SELECT payload FROM jobs`},
		{[]string{"enqueuer", "observer"}, `SELECT headers FROM jobs`},
		{[]string{"enqueuer"}, `SELECT last_error FROM jobs`},
		{[]string{"enqueuer", "observer"}, `SELECT * FROM jobs`},
		{[]string{"enqueuer", "observer"}, `SELECT j FROM jobs j`},
		{[]string{"enqueuer", "observer"}, `SELECT id FROM jobs WHERE payload @> '{}'`},
		{[]string{"enqueuer", "observer"}, `SELECT id FROM jobs FOR UPDATE`},
		{[]string{"enqueuer", "observer"}, `COPY jobs TO STDOUT`},
		{[]string{"enqueuer", "observer"}, `UPDATE jobs SET status = 'dead'`},
		{[]string{"enqueuer", "observer"}, `DELETE FROM jobs`},
		{[]string{"enqueuer", "observer"}, `DELETE FROM sleepers`},
		{[]string{"enqueuer", "observer"}, `INSERT INTO sleepers (queue, worker, registration) VALUES ('default', 'x', 1)`},
		{[]string{"enqueuer", "observer"}, `SELECT nextval('fences')`},
		{[]string{"enqueuer"}, `INSERT INTO jobs (kind) VALUES ('test') RETURNING payload`},
		{[]string{"enqueuer"}, `INSERT INTO jobs (kind, status) VALUES ('test', 'running')`},
		{[]string{"enqueuer"}, `INSERT INTO jobs (kind, locked_by) VALUES ('test', 'x')`},
		{[]string{"enqueuer"}, `INSERT INTO jobs (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET payload = 'null'`},
		{[]string{"enqueuer"}, `INSERT INTO jobs (id, kind) VALUES (3, 'test')`},
		{[]string{"enqueuer"}, `INSERT INTO jobs (kind, attempts) VALUES ('test', 3)`},
		{[]string{"enqueuer"}, `INSERT INTO jobs (kind, created_at) VALUES ('test', 'infinity')`},
		{[]string{"enqueuer"}, `SELECT nextval('jobs_id_seq')`},
		{[]string{"enqueuer"}, `SELECT kind FROM jobs`},
		{[]string{"enqueuer"}, `SELECT worker FROM sleepers`},
		{[]string{"observer"}, `SELECT kind FROM jobs WHERE payload = '1'`},
		{[]string{"observer"}, `SELECT jobs FROM jobs`},
		{[]string{"enqueuer", "observer"}, `SELECT key FROM dedup`},
		{[]string{"enqueuer", "observer"}, `INSERT INTO dedup VALUES ('k', 'infinity')`},
		{[]string{"enqueuer", "observer"}, `DELETE FROM dedup`},
		{[]string{"worker"}, `UPDATE dedup SET key = 'k'`},
		{[]string{"observer", "worker"}, `INSERT INTO jobs (kind) VALUES ('test')`},
		{[]string{"observer", "worker"}, `SELECT enqueue('default', 'test')`},
		{[]string{"observer", "worker"}, `SELECT insert_keyed('{default}', '{test}', '1', NULL, NULL, NULL, NULL, NULL, NULL)`},
		{[]string{"observer", "worker"}, `SELECT insert_replacing('{default}', '{test}', '1', NULL, NULL, NULL, NULL, '{k}', NULL, NULL, NULL, '{t}', NULL)`},
		{[]string{"observer", "worker"}, `SELECT nextval('jobs_id_seq')`},
		{[]string{"worker"}, `UPDATE jobs SET payload = 'null'`},
		{[]string{"worker"}, `UPDATE jobs SET kind = 'other'`},
		{[]string{"worker"}, `UPDATE jobs SET headers = NULL`},
		{[]string{"worker"}, `UPDATE jobs SET max_attempts = 1000000`},
		{all, `UPDATE audit SET actor = 'x'`},
		{all, `DELETE FROM audit`},
		{all, `TRUNCATE audit`},
		{all, `INSERT INTO audit (at, actor, action, count) VALUES ('2000-01-01', 'x', 'x', 0)`},
		{all, `INSERT INTO audit (id, actor, action, count) OVERRIDING SYSTEM VALUE VALUES (1, 'x', 'x', 0)`},
		{[]string{"enqueuer", "observer"}, `INSERT INTO audit (actor, action, count) VALUES ('x', 'x', 0)`},
		{[]string{"enqueuer", "worker", "operator"}, `SELECT actor FROM audit`},
		{[]string{"operator"}, `SELECT payload FROM jobs`},
		{[]string{"operator"}, `UPDATE jobs SET payload = payload`},
		{[]string{"operator"}, `UPDATE jobs SET payload = 'null' RETURNING payload`},
		{[]string{"operator"}, `DELETE FROM jobs RETURNING payload`},
		{[]string{"operator"}, `DELETE FROM jobs WHERE payload = '1'`},
		{[]string{"operator"}, `SELECT headers FROM jobs`},
		{[]string{"operator"}, `SELECT last_error FROM jobs`},
		{[]string{"operator"}, `SELECT history FROM jobs`},
		{[]string{"operator"}, `COPY jobs TO STDOUT`},
		{[]string{"operator"}, `UPDATE jobs SET kind = 'other'`},
		{[]string{"operator"}, `UPDATE jobs SET headers = NULL`},
		{[]string{"operator"}, `UPDATE jobs SET job_key = 'other'`},
		{[]string{"operator"}, `UPDATE jobs SET id = 1`},
		{[]string{"operator"}, `INSERT INTO jobs (kind) VALUES ('test')`},
		{[]string{"operator"}, `SELECT enqueue('default', 'test')`},
		{[]string{"operator"}, `SELECT lock_due('{default}', NULL, 1, '1ms')`},
		{[]string{"operator"}, `SELECT nextval('fences')`},
		{[]string{"operator"}, `SELECT output FROM results`},
		{[]string{"operator"}, `UPDATE results SET output = '1'`},
		{[]string{"operator"}, `SELECT running FROM rules`},
		{[]string{"operator"}, `INSERT INTO rules (queue, job_group, paused, running, per_group, share) VALUES ('q', '', false, 1, 0, 0)`},
		{[]string{"operator"}, `UPDATE rules SET running = 0`},
		{[]string{"operator"}, `DELETE FROM rules`},
		{[]string{"operator"}, `UPDATE rules_version SET version = 0`},
		{[]string{"operator"}, `INSERT INTO paused_kinds (kind, since) VALUES ('k', '2000-01-01')`},
		{[]string{"operator"}, `DELETE FROM sleepers`},
		{[]string{"operator"}, `SELECT job FROM schedules`},
		{[]string{"operator"}, `SELECT digest FROM schedules`},
		{[]string{"operator"}, `UPDATE schedules SET job = '{}'`},
		{[]string{"operator"}, `UPDATE schedules SET spec = '@hourly'`},
		{[]string{"operator"}, `DELETE FROM schedules`},
		{[]string{"operator"}, `SELECT key FROM dedup`},
		{[]string{"enqueuer", "observer"}, `SELECT pause_rule('q', '', true, true)`},
		{all, `SELECT setval('jobs_id_seq', 1)`},
		{all, `SELECT setval('fences', 1)`},
		{all, `SELECT * FROM jobs_archive`},
		{all, `DELETE FROM jobs_archive`},
		{all, `SELECT * FROM migrations`},
		{all, `SELECT applied_at FROM migrations`},
		{all, `INSERT INTO migrations VALUES (99, 'none')`},
		{all, `TRUNCATE jobs`},
		{all, `TRUNCATE sleepers`},
		{all, `DROP TABLE jobs`},
		{all, `ALTER TABLE jobs ADD COLUMN more text`},
		{all, `CREATE INDEX ON jobs (queue)`},
		{all, `CREATE TABLE more ()`},
		{all, `CREATE TRIGGER spy AFTER INSERT ON jobs EXECUTE FUNCTION suppress_redundant_updates_trigger()`},
		{all, `CREATE FUNCTION more() RETURNS void LANGUAGE sql AS ''`},
		{all, `CREATE OR REPLACE FUNCTION enqueue(queue text, kind text) RETURNS bigint LANGUAGE sql AS 'SELECT 1'`},
		{all, `DROP FUNCTION enqueue`},
		{all, `ALTER TYPE job_status ADD VALUE 'other'`},
		{all, `DROP SCHEMA "Select_1" CASCADE`},
		{all, `SET ROLE ` + r.prefix + `migrator`},
	} {
		for _, role := range c.roles {
			tx, err := users[role].BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, `SET LOCAL search_path TO "Select_1"`)
			_, err = tx.ExecContext(t.Context(), c.statement)
			denied(t, role+": "+c.statement, err)
			tx.Rollback()
		}
	}
}

// testRefused is what the enqueueing role may not put into a job that it may write.
func (r *roles) testRefused(t *testing.T, enqueuer *sql.DB) {
	const keyed, replacing = `SELECT FROM "Select_1".insert_keyed`, `SELECT FROM "Select_1".insert_replacing`
	for _, statement := range []string{
		`INSERT INTO "Select_1".jobs (payload) VALUES (to_jsonb(repeat('x', 65 << 20)))`,
		`INSERT INTO "Select_1".jobs (max_attempts) VALUES (2147483647)`,
		`INSERT INTO "Select_1".jobs (scheduled_at) VALUES ('-infinity')`,
		`INSERT INTO "Select_1".jobs (queue) VALUES (repeat('x', 201))`,
		`INSERT INTO "Select_1".jobs (kind) VALUES (repeat('x', 201))`,
		keyed + `(ARRAY[repeat('x', 201)], '{test}', '1', NULL, NULL, NULL, NULL, '{k1}', NULL)`,
		keyed + `('{default}', '{test}', '1', NULL, NULL, '{infinity}', NULL, '{k2}', NULL)`,
		keyed + `('{default}', '{test}', '1', NULL, NULL, NULL, '{2147483647}', '{k3}', NULL)`,
		replacing + `('{default}', '{test}', '1', NULL, NULL, '{infinity}', NULL, '{k}', NULL, NULL, NULL, '{t}', NULL)`,
		replacing + `('{default}', '{test}', '1', NULL, NULL, NULL, '{2147483647}', '{k}', NULL, NULL, NULL, '{t}', NULL)`,
	} {
		_, err := enqueuer.ExecContext(t.Context(), statement)
		if code := sqlState(err); code != "23514" {
			t.Errorf("%s: error %.200v, want 23514, a check violation", statement, err)
		}
	}
}

// testColumns: who may read what an application has put into a job, by the server's own account,
// and from its statistics.
func (r *roles) testColumns(t *testing.T) {
	root, _ := ways[0].open(t, r.dsn)
	got := value[string](t, root, `
		SELECT string_agg(line, '; ' ORDER BY line) FROM (
			SELECT c || ': ' || string_agg(substr(rolname, $2), ', ' ORDER BY rolname) AS line
			FROM unnest(ARRAY['payload', 'headers', 'last_error', 'job_key']) AS c, pg_roles
			WHERE starts_with(rolname, $1) AND rolname !~ '_(user|admin)$' AND has_column_privilege(rolname, '"Select_1".jobs', c, 'SELECT')
			GROUP BY c) AS lines`, r.prefix, len(r.prefix)+1)
	const want = "headers: migrator, worker; job_key: enqueuer, migrator, observer, operator, worker; " +
		"last_error: migrator, observer, worker; payload: migrator, worker"
	if got != want {
		t.Errorf("readable:\ngot  %s\nwant %s", got, want)
	}
}

// TestRolesAgain: the script takes away rights that it does not grant, and otherwise changes
// nothing. It gives everything to the migrating role, also what another user has made since.
func TestRolesAgain(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	r := ready(t)
	exec(t, r.admin, `GRANT ALL ON ALL TABLES IN SCHEMA "Select_1" TO PUBLIC, `+r.prefix+`observer`)
	exec(t, r.admin, `GRANT ALL ON ALL FUNCTIONS IN SCHEMA "Select_1" TO PUBLIC`)
	exec(t, r.admin, `GRANT SELECT (payload) ON "Select_1".jobs TO `+r.prefix+`enqueuer`)
	exec(t, r.admin, `CREATE TABLE "Select_1".later (id bigserial)`) // a later step of the tool's user
	exec(t, r.admin, `ALTER TABLE "Select_1".jobs ADD COLUMN later integer`)
	exec(t, r.admin, `INSERT INTO "Select_1".migrations (version, name) VALUES (1000, 'later')`)
	exec(t, r.admin, `DELETE FROM "Select_1".migrations WHERE version = 1000`)
	exec(t, r.admin, `CREATE FUNCTION "Select_1".later() RETURNS void LANGUAGE sql AS ''`)
	for range 2 {
		if said := r.psql(t); said != "" {
			t.Errorf("psql says %q, want nothing", said)
		}
	}
	strangers := value[int](t, r.admin, `
		SELECT count(*) FROM (
			SELECT relowner AS owner, relnamespace AS namespace FROM pg_class
			UNION ALL SELECT typowner, typnamespace FROM pg_type
			UNION ALL SELECT proowner, pronamespace FROM pg_proc
			UNION ALL SELECT nspowner, oid FROM pg_namespace) AS things
		WHERE namespace = '"Select_1"'::regnamespace AND owner <> (SELECT oid FROM pg_roles WHERE rolname = $1)`, r.prefix+"migrator")
	if strangers != 0 {
		t.Errorf("%d things in the schema belong to others than the migrating role", strangers)
	}
	public := value[int](t, r.admin, `
		SELECT count(*) FROM (
			SELECT relacl AS acl, relnamespace AS namespace FROM pg_class
			UNION ALL SELECT proacl, pronamespace FROM pg_proc
			UNION ALL SELECT nspacl, oid FROM pg_namespace) AS things, aclexplode(acl) AS a
		WHERE namespace = '"Select_1"'::regnamespace AND a.grantee = 0`)
	if public != 0 {
		t.Errorf("PUBLIC has %d rights in the schema, want none", public)
	}
	r.testColumns(t)
	if err := postgres.Migrate(t.Context(), r.migrator(t), r.o); err != nil {
		t.Errorf("Migrate as the migrating role: %v", err)
	}
	root, _ := ways[0].open(t, r.dsn)
	exec(t, root, `GRANT CREATE ON SCHEMA public TO PUBLIC`)
	if said := r.psql(t); !strings.Contains(said, "REVOKE CREATE ON SCHEMA public FROM PUBLIC") {
		t.Errorf("where everybody may create functions the script says %q, want a warning", said)
	}
}

// migrator is a user who acts as the migrating role.
func (r *roles) migrator(t *testing.T) *sql.DB {
	t.Helper()
	exec(t, r.admin, fmt.Sprintf(`CREATE ROLE %smigrator_user LOGIN PASSWORD 'p' IN ROLE %[1]smigrator`, r.prefix))
	return r.login(t, "migrator_user", r.prefix+"migrator")
}

// TestRolesMadeBeforehand: if the roles exist, and the migrating role owns an empty schema, that
// role migrates and runs the script. It needs no right but that.
func TestRolesMadeBeforehand(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	r := newRoles(t)
	wantNothing := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.admin.ExecContext(t.Context(), r.script(t)); err == nil || !strings.Contains(err.Error(), "migrations first") {
		t.Errorf("before there are tables: error %v, want one that says so", err)
	}
	for _, role := range []string{"migrator", "enqueuer", "worker", "observer", "operator"} {
		exec(t, r.admin, `CREATE ROLE `+r.prefix+role)
	}
	exec(t, r.admin, `GRANT `+r.prefix+`migrator TO CURRENT_USER`)
	exec(t, r.admin, `CREATE SCHEMA "Select_1" AUTHORIZATION `+r.prefix+`migrator`)
	db := r.migrator(t)
	wantNothing("Migrate", postgres.Migrate(t.Context(), db, r.o))
	exec(t, db, r.script(t))
	r.testColumns(t)
	wantNothing("Check", postgres.Check(t.Context(), r.user(t, "worker"), r.o))
}

// TestRolesComplete: docs/roles.sql names every table, sequence and function of the schema, and
// every column of jobs. So a migration that adds one also says which role may use it.
func TestRolesComplete(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	text, err := os.ReadFile("../../docs/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, grants, _ := strings.Cut(string(text), "GRANT USAGE ON SCHEMA")
	grants = regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(grants, "")
	names := value[string](t, db, `
		SELECT string_agg(DISTINCT name, ' ') FROM (
			SELECT relname FROM pg_class c WHERE relnamespace = 'errand'::regnamespace AND relkind NOT IN ('i', 't', 'c')
				AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i')
			UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'errand'::regnamespace
				AND prorettype <> 'trigger'::regtype -- anybody's write may fire one
			UNION ALL SELECT attname FROM pg_attribute WHERE attrelid = 'errand.jobs'::regclass AND attnum > 0) AS all_names (name)`)
	for _, name := range strings.Fields(names) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(grants) {
			t.Errorf("docs/roles.sql does not say who may use %s", name)
		}
	}
	observed := value[string](t, db, `SELECT string_agg(attname, ' ') FROM pg_attribute
		WHERE attrelid = 'errand.jobs'::regclass AND attnum > 0 AND attname NOT IN ('payload', 'headers')`)
	_, observer, _ := strings.Cut(grants, "ON errand.jobs_archive TO errand_worker;")
	for _, name := range strings.Fields(observed) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(observer) {
			t.Errorf("docs/roles.sql does not let an observer read the column %s of jobs", name)
		}
	}
}

// TestRolesTooEarly: before the migrations that the script needs, it says what is missing.
func TestRolesTooEarly(t *testing.T) {
	t.Parallel()
	r := newRoles(t)
	steps, err := postgres.Migrations(r.o)
	if err != nil {
		t.Fatal(err)
	}
	ready := false
	for version := 0; version <= len(steps); version++ {
		if version > 0 {
			exec(t, r.admin, steps[version-1].SQL)
		}
		tx, err := r.admin.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.ExecContext(t.Context(), r.script(t))
		_ = tx.Rollback()
		ready = err == nil
		if err != nil && !strings.Contains(err.Error(), "migrations first") {
			t.Errorf("at version %d: got %v, want what is missing", version, err)
		}
	}
	if !ready {
		t.Error("the script fails after all migrations")
	}
}
