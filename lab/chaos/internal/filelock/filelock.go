// Package filelock finds the process that has locked a byte of a file. It works on Linux only.
package filelock

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// table lists the locks of all processes.
const table = "/proc/locks"

// The locked bytes of a SQLite database in WAL mode. They are offsets in the file whose name ends
// in -shm.
const (
	SQLiteWrite      = 120
	SQLiteCheckpoint = 121
)

// Holder returns the process that has locked the byte at that offset for writing. It returns 0 if
// no process has, if there is no file, or if the kernel does not tell.
func Holder(path string, offset int) (pid int, err error) {
	var file syscall.Stat_t
	if err := syscall.Stat(path, &file); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	text, err := os.ReadFile(table)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return holder(string(text), file.Ino, offset), err
}

// holder looks for a line like this:
//
//	2: POSIX  ADVISORY  WRITE 23505 fe:00:9979359 120 120
//
// A process that waits for the lock has an arrow before POSIX.
func holder(text string, inode uint64, offset int) (pid int) {
	file := ":" + strconv.FormatUint(inode, 10)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 8 || f[1] != "POSIX" || f[3] != "WRITE" || !strings.HasSuffix(f[5], file) || !within(offset, f[6], f[7]) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil {
			return pid
		}
	}
	return 0
}

// within reports whether an offset is in a range. The range may end with the file.
func within(offset int, first, last string) bool {
	from, err := strconv.Atoi(first)
	if err != nil || from > offset {
		return false
	}
	to, err := strconv.Atoi(last)
	return last == "EOF" || err == nil && to >= offset
}
