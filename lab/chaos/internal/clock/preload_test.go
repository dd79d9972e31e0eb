package clock

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPreload asks a program in C for the time, with its clock an hour ahead and an hour behind.
func TestPreload(t *testing.T) {
	environment, err := Preload(t.Context(), t.TempDir())
	if errors.Is(err, ErrNoPreload) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED, and CI would fail: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		if err := Set(dir, off); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "date", "+%s")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
		text, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Until(time.Unix(seconds, 0)); (got - off).Abs() > 30*time.Second {
			t.Errorf("off by %v: got %v", off, got)
		}
	}
}
