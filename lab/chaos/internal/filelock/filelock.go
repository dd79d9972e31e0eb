// Package filelock tells which process has what of a file locked, where the kernel tells
// it: on Linux.
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

// Offsets of the locks that a process has, in the file whose name ends in -shm, of a
// SQLite database in WAL mode.
const (
	SQLiteWrite      = 120
	SQLiteCheckpoint = 121
)

// Holder is the process that has the byte at that offset of a file locked for writing, or
// 0: where nobody has, where there is no file, and where the kernel does not tell.
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

// holder looks for a line such as
//
//	2: POSIX  ADVISORY  WRITE 23505 fe:00:9979359 120 120
//
// Who only waits for a lock has an arrow before POSIX.
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

// within says whether an offset is in a range, whose last may be the end of the file.
func within(offset int, first, last string) bool {
	from, err := strconv.Atoi(first)
	if err != nil || from > offset {
		return false
	}
	to, err := strconv.Atoi(last)
	return last == "EOF" || err == nil && to >= offset
}
