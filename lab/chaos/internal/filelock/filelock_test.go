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
		inode        uint64
		offset, want int
	}{{99, 3, 0}, {99, 119, 10}, {99, 120, 7}, {99, 121, 7}, {99, 122, 10}, {999, 119, 0}, {999, 120, 8}, {9, 120, 0}} {
		if got := holder(text, c.inode, c.offset); got != c.want {
			t.Errorf("file %d, byte %d: got %d, want %d", c.inode, c.offset, got, c.want)
		}
	}
}

func TestOwnLock(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel does not tell")
	}
	path := filepath.Join(t.TempDir(), "file")
	check := func(want int) {
		t.Helper()
		if got, err := Holder(path, SQLiteWrite); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
	check(0)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	check(0)
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: SQLiteWrite, Len: 1}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	check(os.Getpid())
}
