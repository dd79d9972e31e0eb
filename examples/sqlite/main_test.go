package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), filepath.Join(t.TempDir(), "app.db"), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "welcome, user 1 (attempt 1)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
