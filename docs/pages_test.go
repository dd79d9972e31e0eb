package docs

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxWords   = 900 // of a page's prose
	maxColumns = 100 // of a line of prose
)

// TestLength: a page has at most maxWords words, and no line of prose is longer than maxColumns.
// Tables and code do not count.
func TestLength(t *testing.T) {
	for _, page := range append(append(pages(t), decisions(t)...), "spec/README.md", "../README.md", "../CONTRIBUTING.md", "../backend/README.md",
		"../examples/README.md", "../lab/README.md") {
		words := 0
		for line := range strings.Lines(prose(read(t, page))) {
			words += len(strings.Fields(line))
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxColumns {
				t.Errorf("%s: %d columns: %s", page, n, line)
			}
		}
		if words > maxWords {
			t.Errorf("%s: %d words", page, words)
		}
	}
}

// prose returns a page without its tables, its code and its comments.
func prose(page string) string {
	page = regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(page, "")
	return regexp.MustCompile("(?m)^(\\||    |<!--).*\n").ReplaceAllString(page, "")
}

// TestReadmeLinks: README links to every page.
func TestReadmeLinks(t *testing.T) {
	readme := read(t, "../README.md")
	for _, page := range pages(t) {
		if !strings.Contains(readme, "](docs/"+page+")") {
			t.Errorf("README does not link to %s", page)
		}
	}
}

// unplain are words that plain technical English does without.
var unplain = regexp.MustCompile(`(?i)\b(amid|whom|hardly|dear|in vain|comes? of|came of|whoever|trying on|tries on|as ever)\b`)

// TestWords: no page, and no script in docs/, has an unplain word.
func TestWords(t *testing.T) {
	// Code, names of tests, and what the scenarios of lab/chaos call themselves.
	quoted := regexp.MustCompile("(?s)`[^`\n]*`|<!-- table: .*<!-- end of the table -->")
	for _, page := range append(append(pages(t), decisions(t)...), "spec/README.md", "spec/errand.pml", "roles.sql", "migrating/gue.sql", "migrating/river.sql",
		"../README.md", "../SECURITY.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../backend/README.md",
		"../examples/README.md", "../lab/README.md") {
		for _, word := range unplain.FindAllString(quoted.ReplaceAllString(read(t, page), ""), -1) {
			t.Errorf("%s: %q", page, word)
		}
	}
}
