package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// wantSetupError checks that err says that something is not set up, and says these words.
func wantSetupError(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	var setup *queue.SetupError
	if !errors.As(err, &setup) {
		t.Errorf("%s: error %v, want a SetupError", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: error %q, want one that says %q", what, err, w)
		}
	}
}

// TestNotSetUp: without the schema, without its tables and without rights every call says so, and
// Run ends.
func TestNotSetUp(t *testing.T) {
	t.Parallel()
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			db.SetMaxOpenConns(1)
			check := func(words ...string) {
				t.Helper()
				q := backend(t, db, postgres.Options{})
				wantSetupError(t, "Enqueue", q.Enqueue(t.Context(), nil, jobs(1)...), words...)
				wantSetupError(t, "Enqueue of a key", q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Key: "k"}), words...)
				worker := engine.Worker{Backend: q, Handler: queue.HandlerFunc(nil), Grace: 1}
				wantSetupError(t, "Run", worker.Run(t.Context()), words...)
			}
			role := "stranger_" + value[string](t, db, `SELECT current_database()`)
			exec(t, db, `CREATE ROLE `+role)
			exec(t, db, `SET ROLE `+role)
			check("docs/roles.sql", "permission denied for schema errand")
			exec(t, db, `RESET ROLE`)
			exec(t, db, `GRANT USAGE ON SCHEMA errand TO `+role)
			exec(t, db, `SET ROLE `+role)
			check("docs/roles.sql", "permission denied for ")
			exec(t, db, `SET ROLE `+role) // lib/pq closes the connection of a statement that Run has ended
			wantRoles(t, backend(t, db, postgres.Options{}))
			exec(t, db, `RESET ROLE`)
			exec(t, db, `DROP OWNED BY `+role)
			exec(t, db, `DROP ROLE `+role)
			exec(t, db, `DROP TABLE errand.jobs, errand.jobs_archive`)
			check("run postgres.Migrate")
			exec(t, db, `DROP SCHEMA errand CASCADE`)
			check("run postgres.Migrate", `"errand"`)
		})
	}
}

// wantRoles compares which role of docs/roles.sql the errors of q name, whose user has no rights.
func wantRoles(t *testing.T, q *postgres.Backend) {
	t.Helper()
	ctx := t.Context()
	_, counting := q.Counts(ctx)
	_, cancelling := q.Cancel(ctx, nil, queue.Selection{IDs: []int64{1}})
	_, _, reading := q.Result(ctx, 1)
	_, pausing := q.Pause(ctx, nil, queue.Target{Queue: "q"}, true)
	_, resuming := q.Pause(ctx, nil, queue.Target{Kind: "k"}, false)
	for role, errs := range map[string][]error{
		"errand_enqueuer": {q.Enqueue(ctx, nil, jobs(1)...)},
		"errand_worker":   {q.SetRules(ctx, nil, queue.Rule{Queue: "q", Running: 1}), reading},
		"errand_observer": {counting},
		"errand_operator": {cancelling, pausing, resuming},
	} {
		for _, err := range errs {
			wantSetupError(t, "without rights", err, "which "+role+" of docs/roles.sql has")
		}
	}
}

// TestCheck: Check and Migrate tell a schema that is missing, older, newer and right.
func TestCheck(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	o := postgres.Options{Schema: "Select_1"}
	check := func() error { return postgres.Check(t.Context(), db, o) }
	wantSetupError(t, "no schema", check(), "run postgres.Migrate")
	exec(t, db, `CREATE SCHEMA "Select_1"`)
	wantSetupError(t, "no tables", check(), "run postgres.Migrate")
	if err := postgres.Migrate(t.Context(), db, o); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Errorf("after Migrate: error %v, want none", err)
	}
	exec(t, db, `DELETE FROM "Select_1".migrations WHERE version = (SELECT max(version) FROM "Select_1".migrations)`)
	wantSetupError(t, "older", check(), "run postgres.Migrate")
	exec(t, db, `INSERT INTO "Select_1".migrations (version, name) VALUES (1000, 'later')`)
	for what, err := range map[string]error{"Check": check(), "Migrate": postgres.Migrate(t.Context(), db, o)} {
		wantSetupError(t, what+", newer", err, "newer than this program")
		if !errors.Is(err, queue.ErrNewer) {
			t.Errorf("%s, newer: error %v, want ErrNewer", what, err)
		}
	}
}
