package docs

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsLinkNoTestCode: nothing that a program imports links package testing, or rapid, which
// adds flags to every program.
func TestProgramsLinkNoTestCode(t *testing.T) {
	if testing.Short() {
		t.Skip("lists every package's imports")
	}
	dependOnSources(t)
	forTests := []string{"/backend/backendtest", "/backend/internal/dbtest", "/backend/postgrestest", "/backend/redis/redistest", "/internal/extent", "/internal/machine", "/backend/postgrestest/withpostgres", "/ops/internal/opstest", "/queue/queuetest"}
	for line := range strings.Lines(list(t, "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")) {
		pkg, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		if isOneOf(pkg, forTests) {
			continue
		}
		for dep := range strings.FieldsSeq(deps) {
			if dep == "testing" || strings.HasPrefix(dep, "pgregory.net/rapid") {
				t.Errorf("%s links %s", pkg, dep)
			}
		}
	}
}

// dependOnSources has go test run the test again, and not take its result from the cache, when a
// file of the module has changed: it sees what a test opens, and not what the test's children do.
func dependOnSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// list runs go list in the module's root.
func list(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return string(out)
}

func isOneOf(pkg string, suffixes []string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(pkg, s) {
			return true
		}
	}
	return false
}
