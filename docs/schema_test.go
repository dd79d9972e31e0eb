package docs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigrationsTable: schema.md has a row for each migration, in their order, and no others.
func TestMigrationsTable(t *testing.T) {
	page := read(t, "schema.md")
	for backend, head := range map[string]string{
		"postgres": "| migration of PostgreSQL | release | what it brings | new rights in roles.sql |\n|---|---|---|---|\n",
		"sqlite":   "| migration of SQLite | release | what it brings |\n|---|---|---|\n",
	} {
		_, table, _ := strings.Cut(page, head)
		table, _, _ = strings.Cut(table, "\n\n")
		var got []string
		for row := range strings.Lines(table) {
			cells := strings.Split(row, "|")
			got = append(got, strings.TrimSpace(cells[1]))
			if len(cells) < 5 || strings.TrimSpace(cells[2]) == "" || strings.TrimSpace(cells[3]) == "" {
				t.Errorf("schema.md: the row of %s has an empty cell", cells[1])
			}
		}
		files, err := filepath.Glob("../backend/" + backend + "/sql/migrations/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, file := range files {
			want = append(want, strings.TrimSuffix(filepath.Base(file), ".sql"))
		}
		if len(want) == 0 || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("schema.md, migrations of %s:\ngot  %v\nwant %v", backend, got, want)
		}
	}
}

// TestRolesVersion: the script demands the version that errand migrate print names its file after,
// and schema.md's table says that no later migration needs new rights.
func TestRolesVersion(t *testing.T) {
	if want := fmt.Sprintf("FROM errand.migrations) < %d THEN -- the last version that needs new rights", RolesVersion); !strings.Contains(RolesIn("errand"), want) {
		t.Errorf("roles.sql lacks %q", want)
	}
	last := 0
	for row := range strings.Lines(read(t, "schema.md")) {
		cells := strings.Split(row, "|")
		var version int
		if n, _ := fmt.Sscanf(cells[min(1, len(cells)-1)], " %04d_", &version); n == 1 && len(cells) > 5 && strings.TrimSpace(cells[4]) != "" {
			last = version
		}
	}
	if last != RolesVersion {
		t.Errorf("schema.md says that %d is the last migration that needs new rights, RolesVersion %d", last, RolesVersion)
	}
}
