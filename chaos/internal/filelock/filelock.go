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

// Has says whether a process has the byte at that offset of a file locked for writing.
// Where there is no file, and where the kernel does not tell, nobody has.
func Has(pid int, path string, offset int) (bool, error) {
	var file syscall.Stat_t
	if err := syscall.Stat(path, &file); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	text, err := os.ReadFile(table)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return has(string(text), pid, file.Ino, offset), err
}

// has looks for a line such as
//
//	2: POSIX  ADVISORY  WRITE 23505 fe:00:9979359 120 120
//
// Who only waits for a lock has an arrow before POSIX.
func has(text string, pid int, inode uint64, offset int) bool {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 8 || f[1] != "POSIX" || f[3] != "WRITE" || f[4] != strconv.Itoa(pid) {
			continue
		}
		first, err := strconv.Atoi(f[6])
		if err != nil || first > offset || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(inode, 10)) {
			continue
		}
		if last, err := strconv.Atoi(f[7]); f[7] == "EOF" || err == nil && last >= offset {
			return true
		}
	}
	return false
}
