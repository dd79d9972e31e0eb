package ops_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestCommitsWait: explain and doctor say that commits wait for a synchronous standby that is not
// there. Explain does not say that the session locks the job: its end would undo nothing. The
// remedy frees it.
func TestCommitsWait(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	t.Setenv("ERRAND_POSTGRES", strings.TrimPrefix(os.Getenv("ERRAND_POSTGRES_BEFORE"), "url"))
	s, err := postgrestest.Start(t.Context(), postgrestest.Options{})
	if err != nil {
		opstest.SkipOutsideCI(t, fmt.Errorf("no server of its own: %w", err))
	}
	defer s.Close()
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	q := opstest.Backend(t, db, postgres.Options{})
	opstest.Report(t, q, opstest.Idle)
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.SetDefault(t, db, "synchronous_commit", "on")
	opstest.Exec(t, db, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	opstest.Exec(t, db, `SELECT pg_reload_conf()`)
	opstest.Eventually(t, "the server waits for the standby", func() bool {
		var names string
		err := db.QueryRowContext(t.Context(), `SHOW synchronous_standby_names`).Scan(&names)
		return err == nil && names == "nobody"
	})
	done := make(chan error, 1)
	go func() { // waits in its commit
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), `SET synchronous_commit = on; UPDATE errand.jobs SET priority = 1`)
		done <- err
	}()
	var answer explain.Answer
	opstest.Eventually(t, "a commit waits", func() bool {
		answer = opstest.Explain(t, q, explain.Question{ID: id})
		return answer.Reasons[0].ID == "commits-wait"
	})
	health, err := doctor.Examine(t.Context(), q, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range health.Checks {
		if c.ID == "durability" && (c.Level != ops.Fail || !strings.Contains(c.Value, "has waited in its commit for")) {
			t.Errorf("doctor says %s: %s", c.Level, c.Value)
		}
	}
	if slices.ContainsFunc(answer.Reasons, func(r explain.Reason) bool { return r.ID == "row-locked" }) {
		t.Errorf("the commit that waits is also said to lock the job")
	}
	if r := answer.Reasons[0]; !strings.Contains(strings.Join(r.Evidence, "\n"), "has waited in its commit for") {
		t.Errorf("evidence %q", r.Evidence)
	}
	if unseen := opstest.Explain(t, q, explain.Question{ID: id + 1000}); unseen.Reasons[0].ID != "commits-wait" {
		t.Errorf("a job that is not seen: %s", opstest.ReasonIDs(unseen))
	}
	_, statements, _ := strings.Cut(answer.Reasons[0].Remedy, ": ")
	reset, reload, _ := strings.Cut(strings.TrimSuffix(statements[:strings.Index(statements, ". ")], "."), ", then ")
	opstest.Exec(t, db, reset)
	opstest.Exec(t, db, reload)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the remedy frees no commit")
	}
}
