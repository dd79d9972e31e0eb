package docs

import (
	"os/exec"
	"strings"
	"testing"
)

// TestProgramsLinkNoTestCode: nothing that a program imports links package testing, or rapid, which
// adds flags to every program.
func TestProgramsLinkNoTestCode(t *testing.T) {
	if testing.Short() {
		t.Skip("lists every package's imports")
	}
	forTests := []string{"/backend/backendtest", "/backend/internal/listtest", "/backend/internal/reusedb", "/backend/postgrestest", "/backend/redis/redistest", "/internal/pgbouncer", "/internal/withpostgres", "/queue/queuetest"}
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
