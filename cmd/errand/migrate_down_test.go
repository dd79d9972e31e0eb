package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
)

// TestDown: what migrate down prints removes the tables, and migrate up can begin again.
func TestDown(t *testing.T) {
	t.Parallel()
	for _, b := range backends[:2] {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			database := b.url(t, t.TempDir())
			d := openWithJobs(t, database, 3)
			var out, problems bytes.Buffer
			a := &app{out: &out, err: &problems, getenv: func(string) string { return "" }} // it needs no database
			if code := run(t.Context(), a, []string{"migrate", "down", d.Scheme}); code != exitDone {
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
			a.getenv = func(string) string { return database }
			if code := run(t.Context(), a, []string{"migrate", "status"}); code != exitDone || !strings.Contains(out.String(), "applied") || strings.Contains(out.String(), "missing") {
				t.Errorf("exit code %d: %s%s", code, &out, &problems)
			}
		})
	}
}
