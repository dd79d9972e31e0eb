package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestShortTimeout: a role of workers whose statements end too soon is named by both, as seen by a
// role without that setting, with statements that the server accepts.
func TestShortTimeout(t *testing.T) {
	t.Parallel()
	db := opstest.OpenPQ(t, postgrestest.DSN(t))
	prefix := opstest.Roles(t, db)
	q := opstest.Backend(t, db, postgres.Options{})
	opstest.Exec(t, db, fmt.Sprintf(`CREATE ROLE %sapp LOGIN IN ROLE %[1]sworker; ALTER ROLE %[1]sapp SET statement_timeout = '20 ms'; ALTER ROLE %[1]sapp SET lock_timeout = 5;
		CREATE ROLE %[1]sslow LOGIN IN ROLE %[1]sworker; ALTER ROLE %[1]sslow SET statement_timeout = 3000;
		CREATE ROLE %[1]speople LOGIN IN ROLE %[1]soperator, %[1]sobserver; ALTER ROLE %[1]speople SET statement_timeout = '1s';
		CREATE ROLE %[1]sminutes LOGIN IN ROLE %[1]sworker; ALTER ROLE %[1]sminutes SET statement_timeout = '2min'`, prefix))
	id := opstest.Enqueue(t, q, queue.Job{})
	a := opstest.Explain(t, q, explain.Question{ID: id})
	if want := "done: statement_timeout is 20ms for the role " + prefix + "app."; opstest.ReasonIDs(a) != "no-worker short-timeout" || !strings.HasSuffix(a.Reasons[1].Verdict, want) {
		t.Errorf("got %s: %s", opstest.ReasonIDs(a), a.Reasons[len(a.Reasons)-1].Verdict)
	}
	c := opstest.Examine(t, q, doctor.Options{})["timeouts"]
	want := fmt.Sprintf("statement_timeout is 20ms for the role %sapp, statement_timeout is 3s for the role %[1]sslow", prefix)
	if c.Level != ops.Warn || c.Value != want {
		t.Errorf("found %+v, want %s", c, want)
	}
	_, statements, _ := strings.Cut(c.Advice, "5 s: ")
	statements, _, _ = strings.Cut(statements, ". Then")
	opstest.Exec(t, db, statements)
	if c, ok := opstest.Examine(t, q, doctor.Options{})["timeouts"]; ok {
		t.Errorf("after %s: found %v", statements, c)
	}
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "no-worker")
}

// TestShortTimeoutOfWorkers: while a worker claims, its timeouts explain nothing.
func TestShortTimeoutOfWorkers(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.SetDefault(t, db, "statement_timeout", "'900ms'")
	id := opstest.Enqueue(t, q, queue.Job{})
	w := driver.WorkerInfo{Name: "a", Queues: []string{"default"}, ClaimError: "canceling statement due to statement timeout"}
	opstest.Report(t, q, w)
	if a := opstest.Explain(t, q, explain.Question{ID: id}); !strings.Contains(opstest.ReasonIDs(a), "short-timeout") {
		t.Errorf("claims fail: got %s", opstest.ReasonIDs(a))
	}
	w.ClaimError = ""
	opstest.Report(t, q, w)
	if a := opstest.Explain(t, q, explain.Question{ID: id}); strings.Contains(opstest.ReasonIDs(a), "short-timeout") {
		t.Errorf("claims succeed: got %s", opstest.ReasonIDs(a))
	}
}
