package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestShortTimeout: a role of workers whose statements end too soon is named by both, as seen by a
// role without that setting, with statements that the server accepts.
func TestShortTimeout(t *testing.T) {
	t.Parallel()
	db := openPQ(t, postgrestest.DSN(t))
	prefix := roles(t, db)
	q := backend(t, db, postgres.Options{})
	exec(t, db, fmt.Sprintf(`CREATE ROLE %sapp LOGIN IN ROLE %[1]sworker; ALTER ROLE %[1]sapp SET statement_timeout = '20 ms'; ALTER ROLE %[1]sapp SET lock_timeout = 5;
		CREATE ROLE %[1]sslow LOGIN IN ROLE %[1]sworker; ALTER ROLE %[1]sslow SET statement_timeout = 3000;
		CREATE ROLE %[1]speople LOGIN IN ROLE %[1]soperator, %[1]sobserver; ALTER ROLE %[1]speople SET statement_timeout = '1s';
		CREATE ROLE %[1]sminutes LOGIN IN ROLE %[1]sworker; ALTER ROLE %[1]sminutes SET statement_timeout = '2min'`, prefix))
	id := enqueue(t, q, queue.Job{})
	a := explain(t, q, ops.Question{ID: id})
	if want := "done: statement_timeout is 20ms for the role " + prefix + "app."; reasonIDs(a) != "no-worker short-timeout" || !strings.HasSuffix(a.Reasons[1].Verdict, want) {
		t.Errorf("got %s: %s", reasonIDs(a), a.Reasons[len(a.Reasons)-1].Verdict)
	}
	c := examine(t, q, ops.Options{})["timeouts"]
	want := fmt.Sprintf("statement_timeout is 20ms for the role %sapp, statement_timeout is 3s for the role %[1]sslow", prefix)
	if c.Level != ops.Warn || c.Value != want {
		t.Errorf("found %+v, want %s", c, want)
	}
	_, statements, _ := strings.Cut(c.Advice, "5 s: ")
	statements, _, _ = strings.Cut(statements, ". Then")
	exec(t, db, statements)
	if c, ok := examine(t, q, ops.Options{})["timeouts"]; ok {
		t.Errorf("after %s: found %v", statements, c)
	}
	wantReason(t, explain(t, q, ops.Question{ID: id}), "no-worker")
}

// TestShortTimeoutOfWorkers: while a worker claims, its timeouts explain nothing.
func TestShortTimeoutOfWorkers(t *testing.T) {
	t.Parallel()
	db, q := fresh(t)
	setDefault(t, db, "statement_timeout", "'900ms'")
	id := enqueue(t, q, queue.Job{})
	w := driver.WorkerInfo{Name: "a", Queues: []string{"default"}, ClaimError: "canceling statement due to statement timeout"}
	report(t, q, w)
	if a := explain(t, q, ops.Question{ID: id}); !strings.Contains(reasonIDs(a), "short-timeout") {
		t.Errorf("claims fail: got %s", reasonIDs(a))
	}
	w.ClaimError = ""
	report(t, q, w)
	if a := explain(t, q, ops.Question{ID: id}); strings.Contains(reasonIDs(a), "short-timeout") {
		t.Errorf("claims succeed: got %s", reasonIDs(a))
	}
}
