package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
)

// TestManual: the manual has a page for each command of docs/command-line.md, with what that says,
// and no other.
func TestManual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	var out bytes.Buffer
	if code := run(t.Context(), &cli.App{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, []string{"man", dir}); code != cli.ExitDone || out.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, &out)
	}
	text, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	pages := readPages(t, dir)
	sections := strings.Split(string(text), "\n## errand ")[1:]
	if len(sections) < 20 {
		t.Fatalf("%s has %d commands", docsPage, len(sections))
	}
	flag := regexp.MustCompile(`(?m)^ {2,}(?:-\w, )?(--[\w-]+)`)
	isDocumented := make(map[string]bool)
	for _, section := range sections {
		title, rest, _ := strings.Cut(section, "\n")
		name := "errand-" + strings.ReplaceAll(title, " ", "-")
		page := pages[name]
		short := strings.TrimSuffix(strings.Split(rest, "\n")[2], ".")
		if !strings.Contains(page, name+" - "+short) {
			t.Errorf("%s.1 does not say %q: %s", name, short, page)
		}
		_, flags, _ := strings.Cut(rest, "\nFlags:\n")
		for _, f := range flag.FindAllStringSubmatch(flags, -1) {
			if !strings.Contains(page, f[1]) {
				t.Errorf("%s.1 has no %s", name, f[1])
			}
		}
		for ; name != ""; name = name[:max(strings.LastIndex(name, "-"), 0)] {
			isDocumented[name] = true
		}
	}
	for name := range pages {
		if !isDocumented[name] && !strings.HasPrefix(name, "errand-completion") {
			t.Errorf("%s.1 is a command that %s does not have", name, docsPage)
		}
	}
}

// readPages reads manual pages, without the marks of roff. Where there is a groff, it has to accept
// them.
func readPages(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		plain := regexp.MustCompile(`\\f[A-Z]|\\`).ReplaceAllString(string(text), "")
		pages[strings.TrimSuffix(filepath.Base(file), ".1")] = plain
	}
	if _, err := exec.LookPath("groff"); err == nil {
		out, err := exec.Command("groff", append([]string{"-man", "-ww", "-z"}, files...)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("groff: %v: %s", err, out)
		}
	}
	return pages
}
