//go:build unix

package postgrestest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/errandhq/errand/internal/machine"
)

func TestTail(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, text := range []string{"", "short\n", strings.Repeat("long\n", 5000) + "end\n"} {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		words := &lastWords{}
		if _, err := words.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSpace(text[max(0, len(text)-4<<10):])
		if got := tail(f); got != want {
			t.Errorf("tail: got %d bytes, want %d", len(got), len(want))
		}
		if got := words.String(); got != want {
			t.Errorf("lastWords: got %d bytes, want %d", len(got), len(want))
		}
	}
}

// What a server runs as may be another account than ours, which then owns the server's directory.
func TestLogIsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	log, err := handOver(dir, nil)
	if err == nil {
		log.Close()
		t.Error("a link was taken for the log")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "kept" {
		t.Errorf("the file that the link names holds %q, %v", text, err)
	}
}

// TestHandOver holds handOver to its order: the log is there, and open, before dir is account's.
func TestHandOver(t *testing.T) {
	account, err := machine.PostgresAccount()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := handOver(dir, account)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := os.Remove(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString("said\n"); err != nil {
		t.Fatal(err)
	}
	if got := tail(log); got != "said" {
		t.Errorf("got %q, want what was written although the name is gone", got)
	}
	owner := os.Geteuid()
	if account != nil {
		owner = int(account.Uid)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(info.Sys().(*syscall.Stat_t).Uid); got != owner {
		t.Errorf("the directory belongs to %d, want %d", got, owner)
	}
}

func TestServerEnv(t *testing.T) {
	got := serverEnv([]string{"PATH=/bin", "DATABASE_URL=postgres://me:secret@host/db", "PGDATA=/data", "TZ=UTC", "LC_ALL=de_DE"})
	if want := []string{"LC_ALL=C", "PATH=/bin", "TZ=UTC"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
