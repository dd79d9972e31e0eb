package main

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
)

// alter runs statements on a database, with the names of its scheme for errand's tables.
func alter(t *testing.T, d *dburl.Database, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := d.DB.ExecContext(t.Context(), strings.ReplaceAll(text, "errand.", prefixOf(d.Scheme))); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// down runs migrate down, and compares its exit code and a part of what it prints.
func down(t *testing.T, database string, code int, want string) {
	t.Helper()
	if got, text := runOn(t, database, "migrate", "down", "--lose-data", "errand"); got != code || !strings.Contains(text, want) {
		t.Errorf("got exit code %d, %q; want %d, %q", got, text, code, want)
	}
}

// TestKnownTables: they are those that migrate up makes.
func TestKnownTables(t *testing.T) {
	for _, b := range backends[:2] {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			d := openWithJobs(t, b.url(t, t.TempDir()), 0)
			list := `SELECT tablename FROM pg_tables WHERE schemaname = 'errand'`
			if d.Scheme == dburl.SQLite {
				list = `SELECT substr(name, 8) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
			}
			var want []string
			err := readRows(t.Context(), d.DB, list, func(rows *sql.Rows) error {
				want = append(want, "")
				return rows.Scan(&want[len(want)-1])
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := knownTables(d.Scheme)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestDownUnrecorded: without the record of the migrations, migrate down answers as migrate up
// does.
func TestDownUnrecorded(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			database := b.url(t, t.TempDir())
			d := openWithJobs(t, database, 1)
			alter(t, d, `DELETE FROM errand.migrations`)
			down(t, database, exitFailed, "and no record of its version: create ")
			alter(t, d, `DROP TABLE errand.migrations`)
			down(t, database, exitFailed, "and no record of its version: create ")
			alter(t, d, `DROP TABLE errand.jobs`)
			down(t, database, exitRefused, "audit")
			down(t, database, exitRefused, "errand migrate print "+d.Scheme+" --down")
		})
	}
}

// TestDownDamaged: without the table of jobs migrate down says how to remove what is left.
func TestDownDamaged(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			database := b.url(t, t.TempDir())
			d := openWithJobs(t, database, 0)
			alter(t, d, `DROP TABLE errand.jobs`)
			down(t, database, exitRefused, "the table "+prefixOf(d.Scheme)+"jobs is missing")
			text, err := dropSQL(d.Scheme)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.DB.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			down(t, database, exitDone, "nothing to do")
		})
	}
}
