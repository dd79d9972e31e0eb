package postgres_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPages runs the SQL of the pages, and finds the statements of the guide that sql.md names.
func TestPages(t *testing.T) {
	t.Parallel()
	db, _ := guideDB(t)
	for _, page := range []string{"sql.md", "operations.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) < 2 {
			t.Errorf("%s: found only %d blocks of SQL", page, len(blocks))
		}
		for _, b := range blocks {
			for statement := range strings.SplitSeq(strings.TrimSpace(b[1]), ";\n") {
				exec(t, db, statement)
			}
		}
		if page == "sql.md" {
			checkGuideNames(t, string(text))
		}
	}
}

// checkGuideNames checks that a table of sql.md has all names of guide.sql, and no others.
func checkGuideNames(t *testing.T, text string) {
	t.Helper()
	_, table, _ := strings.Cut(text, "| name | what it does |")
	table, _, _ = strings.Cut(table, "\n\n")
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(table, -1) {
		named[m[1]] = true
	}
	file, err := os.ReadFile("testdata/guide.sql")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^-- name: (\w+)`).FindAllStringSubmatch(string(file), -1)
	for _, m := range names {
		if !named[m[1]] {
			t.Errorf("sql.md does not name %s", m[1])
		}
	}
	if len(named) != len(names) {
		t.Errorf("sql.md names %d statements, and guide.sql has %d", len(named), len(names))
	}
}
