package filelock

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestTable(t *testing.T) {
	const text = `1: FLOCK  ADVISORY  WRITE 7 fe:00:99 0 EOF
2: POSIX  ADVISORY  WRITE 7 fe:00:99 120 121
2: -> POSIX  ADVISORY  WRITE 8 fe:00:99 120 120
3: POSIX  ADVISORY  READ  9 fe:00:99 120 120
4: POSIX  ADVISORY  WRITE 8 fe:00:999 120 120
5: POSIX  ADVISORY  WRITE 10 fe:00:99 4 EOF
`
	for _, c := range []struct {
		pid, offset int
		want        bool
	}{{7, 119, false}, {7, 120, true}, {7, 121, true}, {7, 122, false}, {8, 120, false}, {9, 120, false}, {10, 3, false}, {10, 120, true}} {
		if got := has(text, c.pid, 99, c.offset); got != c.want {
			t.Errorf("process %d, byte %d: got %v, want %v", c.pid, c.offset, got, c.want)
		}
	}
}

func TestOwnLock(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel does not tell")
	}
	path := filepath.Join(t.TempDir(), "file")
	check := func(want bool) {
		t.Helper()
		if got, err := Has(os.Getpid(), path, SQLiteWrite); err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	check(false)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	check(false)
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: SQLiteWrite, Len: 1}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	check(true)
}
