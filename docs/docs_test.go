// Package docs holds no code: only the test that keeps the documents true.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesNameTheirTests: every promise in guarantees.md and SECURITY.md names a test, as
// `file: name`, and every test named is in its file.
func TestPromisesNameTheirTests(t *testing.T) {
	for file, least := range map[string]int{"guarantees.md": 20, "../SECURITY.md": 8} {
		if promises := checkPromises(t, file); promises < least {
			t.Errorf("%s: found only %d promises", file, promises)
		}
	}
}

// checkPromises returns how many there are in that file.
func checkPromises(t *testing.T, file string) (promises int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cited := regexp.MustCompile("`([a-z/_]+\\.go): ([^`]+)`")
	for row := range strings.Lines(string(text)) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| promise") {
			continue
		}
		promises++
		found := cited.FindAllStringSubmatch(row, -1)
		if len(found) == 0 {
			t.Errorf("names no test: %s", row)
		}
		for _, c := range found {
			code, err := os.ReadFile(filepath.Join("..", c[1]))
			if err != nil {
				t.Error(err)
			} else if !strings.Contains(string(code), "func "+c[2]+"(") && !strings.Contains(string(code), `{"`+c[2]+`"`) {
				t.Errorf("%s has no test %q", c[1], c[2])
			}
		}
	}
	return promises
}

// TestLinks: what the documents link to in this repository is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([\w./-]+)(#[\w-]*)?\)`)
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(append(files, top...), decisions(t)...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), l[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
