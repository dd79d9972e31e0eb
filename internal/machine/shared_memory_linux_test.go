package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShare: the directory exists until the last of several runs has left it, and then nothing of
// it does.
func TestShare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	first, err := share(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := share(dir)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "left by a test that was killed")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err != nil {
		t.Errorf("while a run uses the directory: %v", err)
	}
	if err := second(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the last run: got %v, want that the directory does not exist", err)
	}
	third, err := share(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a later run: %v", err)
	}
	if err := third(); err != nil {
		t.Error(err)
	}
}

// TestShareRefuses: a link is refused, since its target may be another account's.
func TestShareRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := share(dir); err == nil || !strings.Contains(err.Error(), "not a directory of this account") {
		t.Errorf("got %v, want that the link is refused", err)
	}
}
