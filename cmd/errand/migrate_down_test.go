package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
)

// TestDown: what migrate down prints removes the tables, and migrate up can begin again.
func TestDown(t *testing.T) {
	t.Parallel()
	for _, b := range clitest.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			database := b.URL(t, t.TempDir())
			d := clitest.OpenWithJobs(t, database, 3)
			var out, problems bytes.Buffer
			a := &cli.App{Out: &out, Err: &problems, Getenv: func(string) string { return "" }} // it needs no database
			if code := run(t.Context(), a, []string{"migrate", "down", d.Scheme}); code != cli.ExitDone {
				t.Fatalf("exit code %d: %s", code, &problems)
			}
			if _, err := d.DB.ExecContext(t.Context(), out.String()); err != nil {
				t.Fatal(err)
			}
			left := `SELECT count(*) FROM pg_namespace WHERE nspname = 'errand'`
			if d.Scheme == dburl.SQLite {
				left = `SELECT count(*) FROM sqlite_schema WHERE name LIKE 'errand%'`
			}
			var n int
			if err := d.DB.QueryRowContext(t.Context(), left).Scan(&n); err != nil || n != 0 {
				t.Errorf("%d are left, %v", n, err)
			}
			if err := d.Migrate(t.Context()); err != nil {
				t.Errorf("after that: %v", err)
			}
			out.Reset()
			a.Getenv = clitest.Env(database)
			if code := run(t.Context(), a, []string{"migrate", "status"}); code != cli.ExitDone || !strings.Contains(out.String(), "applied") || strings.Contains(out.String(), "missing") {
				t.Errorf("exit code %d: %s%s", code, &out, &problems)
			}
		})
	}
}
