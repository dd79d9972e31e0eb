package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeProgram runs README's program in an empty directory, outside of the examples' module.
// It prints what README says.
func TestReadmeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dependOnSources(t)
	text := read(t, "../README.md")
	code := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindStringSubmatch(text)
	says := regexp.MustCompile("prints\\s`([^`]+)`").FindStringSubmatch(text)
	if code == nil || says == nil {
		t.Fatal("README has no program, or does not say what it prints")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program.exe")
	if err := os.WriteFile(source, []byte(code[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var log strings.Builder // the worker logs that it stops while the handler runs, if it still does
	cmd := exec.Command(program)
	cmd.Dir, cmd.Stderr = dir, &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "INFO errand: worker shuts down") {
			t.Errorf("the program logs %q", line)
		}
	}
	if got := strings.TrimSpace(string(out)); got != says[1] {
		t.Errorf("the program prints %q, and README says %q", got, says[1])
	}
}
