package sqlite_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// wantSetupError checks that err says that something is not set up, and says these words.
func wantSetupError(t *testing.T, what string, err error, words string) {
	t.Helper()
	var setup *queue.SetupError
	if !errors.As(err, &setup) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: error %v, want a SetupError that says %q", what, err, words)
	}
}

// TestNotSetUp: without the tables every call says so, and Run ends.
func TestNotSetUp(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		q := backend(t, db, sqlite.Options{})
		wantSetupError(t, "Enqueue", q.Enqueue(t.Context(), nil, jobs(1)...), "run sqlite.Migrate")
		tx := begin(t, db)
		wantSetupError(t, "Enqueue in a transaction", q.Enqueue(t.Context(), tx, jobs(1)...), "run sqlite.Migrate")
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		worker := engine.Worker{Backend: q, Handler: queue.HandlerFunc(nil), Grace: 1}
		wantSetupError(t, "Run", worker.Run(t.Context()), "run sqlite.Migrate")
	})
}

// TestCheck: Check and Migrate tell tables that are missing, older, newer and right.
func TestCheck(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		o := sqlite.Options{Prefix: "select_"}
		check := func() error { return sqlite.Check(t.Context(), db, o) }
		wantSetupError(t, "no tables", check(), "run sqlite.Migrate")
		migrate(t, db, o)
		if err := check(); err != nil {
			t.Errorf("after Migrate: error %v, want none", err)
		}
		execute(t, db, `UPDATE select_migrations SET version = version - 1000`)
		wantSetupError(t, "older", check(), "run sqlite.Migrate")
		execute(t, db, `INSERT INTO select_migrations (version, name) VALUES (1000, 'later')`)
		for what, err := range map[string]error{"Check": check(), "Migrate": sqlite.Migrate(t.Context(), db, o)} {
			wantSetupError(t, what+", newer", err, "newer than this program")
			if !errors.Is(err, queue.ErrNewer) {
				t.Errorf("%s, newer: error %v, want ErrNewer", what, err)
			}
		}
		execute(t, db, `DROP TABLE select_migrations`)
		wantSetupError(t, "Check without a record", check(), "create select_migrations")
		wantSetupError(t, "Migrate without a record", sqlite.Migrate(t.Context(), db, o), "create select_migrations")
	})
}
