//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// takeTurn does what another process does that has its turn to write, and returns what ends it.
func takeTurn(t *testing.T, path string) (end func()) {
	t.Helper()
	other, err := os.Open(path + "-turn")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { other.Close() }
}

// TestTurn: while another process has its turn each call that writes waits, until its context ends or LockTimeout
// is over, and writes when that process has ended. What reads does not wait.
func TestTurn(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path := filepath.Join(t.TempDir(), "turn.db")
		db := open(t, driver, sqlite.DSN(path))
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		for name, verb := range writerVerbs(t, q) {
			end := takeTurn(t, path)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := verb(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s out of turn: error %v, want that of its context", name, err)
			}
			cancel()
			if _, err := q.Counts(t.Context()); err != nil {
				t.Errorf("Counts while another process has its turn: %v", err)
			}
			ended := make(chan error, 1)
			go func() { ended <- verb(t.Context()) }()
			select {
			case err := <-ended:
				t.Errorf("%s out of turn returned %v, want that it waits", name, err)
			case <-time.After(30 * time.Millisecond):
			}
			end()
			if err := <-ended; err != nil {
				t.Errorf("%s after it has waited: %v", name, err)
			}
		}
		hasty := backend(t, db, sqlite.Options{LockTimeout: 30 * time.Millisecond})
		end := takeTurn(t, path)
		err := hasty.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"})
		if err == nil || !strings.Contains(err.Error(), "write lock for 30ms") {
			t.Errorf("Enqueue while a turn does not end: %v, want that another has had the lock for 30ms", err)
		}
		end()
		enqueue(t, hasty, jobs(1)...)
	})
}

// TestNoTurns: without the file of turns everything works, as where it cannot be created.
func TestNoTurns(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path := filepath.Join(t.TempDir(), "turn.db")
		if err := os.Mkdir(path+"-turn", 0o500); err != nil { // a folder cannot be opened as a file to be created
			t.Fatal(err)
		}
		db := open(t, driver, sqlite.DSN(path))
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		enqueue(t, q, jobs(2)...)
		if got := len(claim(t, q, 2)); got != 2 {
			t.Errorf("claimed %d jobs, want 2", got)
		}
	})
}
