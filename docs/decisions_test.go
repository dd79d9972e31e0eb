package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// decisions returns the pages in decisions/, README.md among them.
func decisions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("decisions/*.md")
	if err != nil || len(files) < 100 {
		t.Fatalf("found only %d decisions: %v", len(files), err)
	}
	return files
}

// TestDecisions: decisions have numbers without gaps. Each has a title, its date and what was
// decided, and README.md lists it once, with its title.
func TestDecisions(t *testing.T) {
	list := read(t, "decisions/README.md")
	form := regexp.MustCompile(`^# (.+)\n\n20\d\d-\d\d-\d\d\n\n\*\*Decided:\*\* `)
	number := 0
	for _, page := range decisions(t) {
		if page = filepath.ToSlash(page); page == "decisions/README.md" {
			continue
		}
		number++
		name := strings.TrimPrefix(page, "decisions/")
		if !strings.HasPrefix(name, fmt.Sprintf("%03d-", number)) {
			t.Fatalf("%s: want the number %03d", page, number)
		}
		m := form.FindStringSubmatch(read(t, page))
		if m == nil {
			t.Errorf("%s: want a title, a date and **Decided:**", page)
		} else if line := fmt.Sprintf("| [%03d](%s) | %s |\n", number, name, m[1]); strings.Count(list, line) != 1 {
			t.Errorf("decisions/README.md: want once %s", line)
		}
	}
	if n := strings.Count(list, "\n| ["); n != number {
		t.Errorf("decisions/README.md lists %d decisions of %d", n, number)
	}
}
