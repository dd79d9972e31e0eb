package explain_test

import (
	"database/sql"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestKilledProcess runs a worker until its process is killed. TestKilled starts it.
func TestKilledProcess(t *testing.T) {
	dsn := os.Getenv("ERRAND_TEST_KILLED")
	if dsn == "" {
		t.Skip("TestKilled runs it")
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	mux := queue.NewMux()
	mux.Handle("emails.send", queue.HandlerFunc(succeed))
	_ = (&engine.Worker{Backend: opstest.Backend(t, db, postgres.Options{}), Handler: mux, Name: "victim", Queues: []string{"emails"}}).Run(t.Context())
}

// TestKilled: the only worker of a queue is killed. Explain and doctor say so before it counts as
// vanished, and afterwards, too.
func TestKilled(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q := opstest.Backend(t, db, postgres.Options{})
	cmd := osexec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
	cmd.Env = append(os.Environ(), "ERRAND_TEST_KILLED="+dsn)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	opstest.Eventually(t, "the worker has reported itself", func() bool { return len(opstest.Workers(t, q)) > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	id := opstest.Enqueue(t, q, queue.Job{Queue: "emails", Kind: "emails.send", ScheduledAt: time.Now().Add(-14 * time.Second)})
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '14 seconds'`) // a report is late
	a := opstest.Explain(t, q, explain.Question{ID: id})
	opstest.WantReason(t, a, "workers-silent")
	if want := "The only worker that would run job"; !strings.HasPrefix(a.Reasons[0].Verdict, want) {
		t.Errorf("verdict %q, want %q", a.Reasons[0].Verdict, want)
	}
	if c := opstest.Examine(t, q, doctor.Options{})["fleet"]; c.Level != ops.Warn || !strings.Contains(c.Value, "victim (silent for ") {
		t.Errorf("fleet: %+v", c)
	}

	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '1 minute'`)
	a = opstest.Explain(t, q, explain.Question{ID: id})
	opstest.WantReason(t, a, "no-worker")
	if want := fmt.Sprintf("if its process %d on host ", cmd.Process.Pid); !strings.HasPrefix(a.Reasons[0].Evidence[1], want) {
		t.Errorf("evidence %q, want %q", a.Reasons[0].Evidence, want)
	}
	other := driver.WorkerInfo{Name: "other", Queues: []string{"email"}, Kinds: []string{"emails.sent"}}
	for _, c := range []struct{ reason, doctor, replaced string }{
		{"queue-not-served", "emails (worker victim, which would run them, vanished ", "start a worker with this queue"},
		{"kind-not-handled", "emails.send in the queue emails (worker victim, which would run them, vanished ", "if it is retired: errand jobs cancel --kind emails.send"},
	} {
		opstest.Report(t, q, other)
		other.Queues = []string{"email", "emails"}
		a := opstest.Explain(t, q, explain.Question{ID: id})
		opstest.WantReason(t, a, c.reason)
		if r := a.Reasons[0]; !strings.Contains(r.Verdict, "any more: victim did, and vanished 1m") || !strings.HasPrefix(r.Remedy, "start it again") ||
			!strings.Contains(r.Remedy, "if a deploy has replaced it: ") || !strings.Contains(r.Remedy, c.replaced) {
			t.Errorf("got %+v", r)
		}
		found := opstest.Examine(t, q, doctor.Options{})
		if got := found["nobody-serves"]; !strings.Contains(got.Value, c.doctor) {
			t.Errorf("nobody-serves: %+v, want %q", got, c.doctor)
		}
		if got := found["fleet"]; !strings.Contains(got.Value, "victim (silent for 1m") {
			t.Errorf("fleet: %+v", got)
		}
	}
}
