package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w*`)
	shownBy  = regexp.MustCompile(`(?m)^// Shown by:.*\n(?:// .+\n)*`)
)

// TestNamesOfTests: each test and benchmark exists that a page of decisions/ or the "Shown by" of a
// mechanism names.
func TestNamesOfTests(t *testing.T) {
	defined := make(map[string]bool)
	named := make(map[string][]string)
	inDecisions := 0
	for _, page := range decisions(t) {
		named[page] = testName.FindAllString(read(t, page), -1)
		inDecisions += len(named[page])
	}
	for path, code := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func (\w+)\(`).FindAllStringSubmatch(code, -1) {
				defined[m[1]] = true
			}
			continue
		}
		for _, comment := range shownBy.FindAllString(code, -1) {
			named[path] = append(named[path], testName.FindAllString(comment, -1)...)
		}
	}
	for path, names := range named {
		for _, name := range names {
			if !defined[name] {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
	}
	if n := len(named) - len(decisions(t)); inDecisions < 50 || n < 8 {
		t.Errorf("found only %d names in decisions, and %d Go files that name tests", inDecisions, n)
	}
}

// goFiles returns the texts of the Go files of queue, the backends and the gateway, and of these
// tests, by path.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, root := range []string{"../queue", "../engine", "../backend", "../gateway", "."} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") {
				files[path] = read(t, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestStatementsExist: the code of a backend runs each of its SQL files, and names no other. It
// looks up a statement by the name of its file.
func TestStatementsExist(t *testing.T) {
	for _, backend := range []string{"postgres", "sqlite"} {
		paths, err := filepath.Glob("../backend/" + backend + "/sql/*.sql")
		if err != nil || len(paths) < 50 {
			t.Fatalf("found only %d statements of %s, error %v", len(paths), backend, err)
		}
		files := make(map[string]bool)
		for _, path := range paths {
			files[strings.TrimSuffix(filepath.Base(path), ".sql")] = true
		}
		used := make(map[string]bool)
		for path, code := range goFiles(t) {
			if !strings.HasPrefix(path, "../backend/"+backend+"/") || strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(`\b(?:sql|s)\["(\w+)"\]|"sql/(\w+)\.sql"`).FindAllStringSubmatch(code, -1) {
				name := m[1] + m[2]
				if used[name] = true; !files[name] {
					t.Errorf("%s runs the statement %s, and there is no file sql/%[2]s.sql", path, name)
				}
			}
		}
		for name := range files {
			if !used[name] {
				t.Errorf("%s has a file sql/%s.sql that nothing runs", backend, name)
			}
		}
	}
}

// TestStatementsTable: statements.md names only SQL files that exist. It names each statement of
// PostgreSQL, unless a comment of the code does.
func TestStatementsTable(t *testing.T) {
	page := read(t, "statements.md")
	comments := ""
	for path, code := range goFiles(t) {
		if strings.HasPrefix(path, "../backend/postgres/") && !strings.HasSuffix(path, "_test.go") {
			comments += strings.Join(regexp.MustCompile(`(?m)^// .*`).FindAllString(code, -1), "\n")
		}
	}
	files := make(map[string]bool)
	for _, pattern := range []string{"../backend/*/sql/*.sql", "../backend/*/sql/migrations/*.sql"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			files[filepath.Base(path)] = true
			isStatement := strings.HasPrefix(path, "../backend/postgres/sql/") && !strings.Contains(path, "migrations")
			if isStatement && !strings.Contains(page, filepath.Base(path)) && !strings.Contains(comments, "sql/"+filepath.Base(path)) {
				t.Errorf("neither statements.md nor a comment of the code names %s", path)
			}
		}
	}
	for _, name := range regexp.MustCompile(`\b\w+\.sql\b`).FindAllString(page, -1) {
		if !files[name] {
			t.Errorf("statements.md names %s, which does not exist", name)
		}
	}
	if len(files) < 50 {
		t.Errorf("found only %d SQL files", len(files))
	}
}
