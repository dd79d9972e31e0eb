package ops_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
)

// TestDocs: docs/doctor.md lists the checks and the reasons that there are, and no others.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, q := opstest.Fresh(t)
	report, err := doctor.Examine(t.Context(), q, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	checks := make(map[string]bool)
	for _, c := range report.Checks {
		checks[c.ID] = true
	}
	compare(t, string(page), "checks", checks)
	compare(t, string(page), "reasons", reasons(t))
	_, file := opstest.FreshFile(t)
	report, err = doctor.Examine(t.Context(), file, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		if !strings.Contains(string(page), "`"+c.ID+"`") {
			t.Errorf("the page does not name the check %s", c.ID)
		}
	}
	report, err = doctor.Examine(t.Context(), opstest.NewRedisNode(t).Q, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	onRedis := make(map[string]bool)
	for _, c := range report.Checks {
		onRedis[c.ID] = true
	}
	for _, everywhere := range []string{"reach", "backlog", "nobody-serves", "fleet", "schedules"} {
		delete(onRedis, everywhere)
	}
	compare(t, string(page), "redis", onRedis)
}

// TestEveryFaultMade: each reason of explain and each check of doctor is in a test that makes it.
func TestEveryFaultMade(t *testing.T) {
	made := make(map[string]bool)
	var paths []string
	for _, pattern := range []string{"*_test.go", "doctor/*_test.go", "explain/*_test.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"([a-z -]+)"`).FindAllStringSubmatch(string(text), -1) {
			for _, id := range strings.Fields(m[1]) {
				made[id] = true
			}
		}
	}
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"checks", "sqlite", "reasons"} {
		for id := range listed(string(page), table) {
			if !made[id] {
				t.Errorf("no test makes %s", id)
			}
		}
	}
}

// reasons are the IDs of reasons in the code.
func reasons(t *testing.T) map[string]bool {
	t.Helper()
	ids := make(map[string]bool)
	paths, err := filepath.Glob("explain/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "_test.go") {
			for _, m := range regexp.MustCompile(`(?:Reason\{ID: |\{\{ID: |r\.ID(?:, r\.\w+)* = )"([a-z-]+)"`).FindAllStringSubmatch(string(text), -1) {
				ids[m[1]] = true
			}
		}
	}
	return ids
}

// compare compares the IDs in the first column of a table of the page with those of the code.
func compare(t *testing.T, page, table string, code map[string]bool) {
	t.Helper()
	got, want := slices.Sorted(maps.Keys(listed(page, table))), slices.Sorted(maps.Keys(code))
	if !slices.Equal(got, want) {
		t.Errorf("the table of %s lists\n%v, the code has\n%v", table, got, want)
	}
}

// listed returns the IDs in the first column of a table of the page.
func listed(page, table string) map[string]bool {
	_, text, _ := strings.Cut(page, "<!-- "+table+" -->")
	text, _, _ = strings.Cut(text, "\n\n")
	ids := make(map[string]bool)
	for row := range strings.Lines(text) {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(first, -1) {
			ids[m[1]] = true
		}
	}
	return ids
}
