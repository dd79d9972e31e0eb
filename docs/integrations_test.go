package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExcerpts: the code in integrations.md is in the file that was linked last before it, line
// for line; only the indentation may differ.
func TestExcerpts(t *testing.T) {
	text, err := os.ReadFile("integrations.md")
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile("(?s)\\]\\((\\.\\./examples/[\\w./-]+\\.go)\\)|```go\n(.*?)```")
	file, excerpts := "", 0
	for _, m := range part.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			file = m[1]
			continue
		}
		excerpts++
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(flat(string(code)), flat(m[2])) {
			t.Errorf("not in %s:\n%s", file, m[2])
		}
	}
	if excerpts < 15 {
		t.Errorf("found only %d excerpts", excerpts)
	}
}

// flat is code without its indentation.
func flat(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
