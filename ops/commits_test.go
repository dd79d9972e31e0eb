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
	"github.com/errandhq/errand/queue"
)

// TestCommitsWait: Explain and Doctor say that commits wait for a synchronous standby that is not
// there. Explain does not say that the session locks the job: its end would undo nothing. The
// remedy frees it.
func TestCommitsWait(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	t.Setenv("ERRAND_POSTGRES", strings.TrimPrefix(os.Getenv("ERRAND_POSTGRES_BEFORE"), "url"))
	s, err := postgrestest.Start(t.Context(), postgrestest.Options{})
	if err != nil {
		skipOutsideCI(t, fmt.Errorf("no server of its own: %w", err))
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
	q := backend(t, db, postgres.Options{})
	report(t, q, idle)
	id := enqueue(t, q, queue.Job{})
	setDefault(t, db, "synchronous_commit", "on")
	exec(t, db, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	exec(t, db, `SELECT pg_reload_conf()`)
	eventually(t, "the server waits for the standby", func() bool {
		var names string
		err := db.QueryRowContext(t.Context(), `SHOW synchronous_standby_names`).Scan(&names)
		return err == nil && names == "nobody"
	})
	done := make(chan error, 1)
	go func() { // waits in its commit
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), `SET synchronous_commit = on; UPDATE errand.jobs SET priority = 1`)
		done <- err
	}()
	var answer ops.Answer
	eventually(t, "a commit waits", func() bool {
		answer = explain(t, q, ops.Question{ID: id})
		return answer.Reasons[0].ID == "commits-wait"
	})
	health, err := ops.Doctor(t.Context(), q, ops.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range health.Checks {
		if c.ID == "durability" && (c.Level != ops.Fail || !strings.Contains(c.Value, "has waited in its commit for")) {
			t.Errorf("doctor says %s: %s", c.Level, c.Value)
		}
	}
	if slices.ContainsFunc(answer.Reasons, func(r ops.Reason) bool { return r.ID == "row-locked" }) {
		t.Errorf("the commit that waits is also said to lock the job")
	}
	if r := answer.Reasons[0]; !strings.Contains(strings.Join(r.Evidence, "\n"), "has waited in its commit for") {
		t.Errorf("evidence %q", r.Evidence)
	}
	if unseen := explain(t, q, ops.Question{ID: id + 1000}); unseen.Reasons[0].ID != "commits-wait" {
		t.Errorf("a job that is not seen: %s", reasonIDs(unseen))
	}
	_, statements, _ := strings.Cut(answer.Reasons[0].Remedy, ": ")
	reset, reload, _ := strings.Cut(strings.TrimSuffix(statements[:strings.Index(statements, ". ")], "."), ", then ")
	exec(t, db, reset)
	exec(t, db, reload)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the remedy frees no commit")
	}
}
