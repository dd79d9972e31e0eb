package docs

import (
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
