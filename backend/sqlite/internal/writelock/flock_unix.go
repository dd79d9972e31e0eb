//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package writelock

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// noFollow keeps open from following a symbolic link.
const noFollow = syscall.O_NOFOLLOW

// chownToOwnerOf makes the owner of the database the owner of a file that root has created, as
// SQLite does with its own files.
func chownToOwnerOf(at *os.File, database fs.FileInfo) {
	if owner, ok := database.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		_ = at.Chown(int(owner.Uid), int(owner.Gid))
	}
}

// tryLock reports whether it has locked f. It also returns true if f cannot be locked at all.
func tryLock(f *os.File) bool {
	return !errors.Is(flock(f, syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func lock(f *os.File) { _ = flock(f, syscall.LOCK_EX) }

func unlock(f *os.File) { _ = flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locking error
	err = raw.Control(func(fd uintptr) {
		for {
			if locking = syscall.Flock(int(fd), how); !errors.Is(locking, syscall.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, locking)
}
