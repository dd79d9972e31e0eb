//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
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

// TestTurn: while another process has its turn each call that writes waits, until its context ends
// or LockTimeout is over, and writes when that process has ended. What reads does not wait.
func TestTurn(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path := filepath.Join(t.TempDir(), "turn.db")
		db := open(t, driver, sqlite.DSN(path))
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		for name, operation := range writerOperations(t, q) {
			end := takeTurn(t, path)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := operation(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s out of turn: error %v, want that of its context", name, err)
			}
			cancel()
			if _, err := q.Counts(t.Context()); err != nil {
				t.Errorf("Counts while another process has its turn: %v", err)
			}
			ended := make(chan error, 1)
			go func() { ended <- operation(t.Context()) }()
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
	})
}

// TestTurnNeverComes: a process that has its turn and does not end it, because it has been stopped
// or means no good, keeps the others waiting for a tenth of LockTimeout once, and not each call:
// SQLite's own lock is enough.
func TestTurnNeverComes(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path := filepath.Join(t.TempDir(), "turn.db")
		db := open(t, driver, sqlite.DSN(path))
		migrate(t, db, sqlite.Options{})
		const timeout = 5 * time.Second
		q := backend(t, db, sqlite.Options{LockTimeout: timeout})
		calls := func() time.Duration {
			begun := time.Now()
			for range 20 {
				enqueue(t, q, jobs(1)...)
			}
			return time.Since(begun)
		}
		without := calls()
		end := takeTurn(t, path)
		if took, most := calls(), 2*timeout/10+5*without; took < timeout/10 || took > most {
			t.Errorf("20 calls while a turn does not end took %v, want from %v to %v: without it they took %v", took, timeout/10, most, without)
		}
		end()
		await(t, "a call that waits for its turn again", func() bool {
			defer takeTurn(t, path)()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return errors.Is(q.Enqueue(ctx, nil, jobs(1)...), context.DeadlineExceeded)
		})
	})
}

// await waits until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited, but never saw: %s", what)
		}
	}
}

// TestTurnFileMode: the users that may open the database may open its lock file, and no other user
// may, whichever user has created it.
func TestTurnFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for _, c := range []struct{ database, before, want os.FileMode }{
		{0o600, 0, 0o600},
		{0o640, 0, 0o640},
		{0o666, 0, 0o666},
		{0o600, 0o644, 0o600}, // as version 1 made it
		{0o640, 0o444, 0o440}, // as somebody else may
	} {
		path := filepath.Join(t.TempDir(), "turn.db")
		create := func(name string, mode os.FileMode) {
			t.Helper()
			if err := errors.Join(os.WriteFile(name, nil, mode), os.Chmod(name, mode)); err != nil {
				t.Fatal(err)
			}
		}
		create(path, c.database)
		if c.before != 0 {
			create(path+"-turn", c.before)
		}
		migrate(t, open(t, drivers[0], sqlite.DSN(path)), sqlite.Options{})
		info, err := os.Stat(path + "-turn")
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != c.want {
			t.Errorf("beside a database of mode %o, and %o before: mode %o, want %o", c.database, c.before, got, c.want)
		}
	}
}

// TestTurnFileLink: a symbolic link in the place of the file of turns is not followed.
func TestTurnFileLink(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "turn.db"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{other, filepath.Join(dir, "none")} {
		_ = os.Remove(path + "-turn")
		if err := os.Symlink(target, path+"-turn"); err != nil {
			t.Fatal(err)
		}
		db := open(t, drivers[0], sqlite.DSN(path))
		migrate(t, db, sqlite.Options{})
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		enqueue(t, backend(t, db, sqlite.Options{}), jobs(1)...)
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("what the link points to has mode %v, %v; want 644", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that a link pointed to was created: %v", err)
	}
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
