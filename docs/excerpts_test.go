package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExcerpts: the Go code in a page is in the Go file that the page linked last before it: whole
// lines, in that order. A line "// …" stands for lines that are left out. Indentation may differ.
func TestExcerpts(t *testing.T) {
	for _, page := range append(pages(t), "../README.md") {
		checkExcerpts(t, page)
	}
}

func checkExcerpts(t *testing.T, page string) {
	t.Helper()
	part := regexp.MustCompile("(?s)\\]\\(([\\w./-]+\\.go)\\)|```go\n(.*?)```")
	file := ""
	for _, m := range part.FindAllStringSubmatch(read(t, page), -1) {
		if m[1] != "" {
			file = m[1]
			continue
		}
		if file == "" {
			t.Errorf("%s: no Go file is linked before\n%s", page, m[2])
			continue
		}
		rest := "\n" + unindent(read(t, filepath.Join(filepath.Dir(page), file)))
		for piece := range strings.SplitSeq(unindent(m[2]), "// …\n") {
			_, after, found := strings.Cut(rest, "\n"+piece)
			if !found {
				t.Errorf("%s: not in %s, or not in this order:\n%s", page, file, piece)
				break
			}
			rest = "\n" + after
		}
	}
}

// pages returns the names of all pages in docs/.
func pages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("found only %d pages: %v", len(files), err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unindent returns code without its indentation.
func unindent(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
