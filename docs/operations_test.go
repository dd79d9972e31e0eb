package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLogMessages: the worker logs the messages that operations.md explains.
func TestLogMessages(t *testing.T) {
	_, table, found := strings.Cut(read(t, "operations.md"), "| message |")
	table, _, _ = strings.Cut(table, "\n\n")
	messages := regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1)
	if !found || len(messages) < 5 {
		t.Fatalf("found only %d messages", len(messages))
	}
	files, err := filepath.Glob("../engine/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range append(files, "../internal/upkeep/calllog.go") {
		if !strings.HasSuffix(file, "_test.go") {
			code.WriteString(read(t, file))
		}
	}
	for _, m := range messages {
		if !strings.Contains(code.String(), m[1]) {
			t.Errorf("no message of engine/ has %q", m[1])
		}
	}
}
