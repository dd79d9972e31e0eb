//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// tryLock says whether it has locked f, or never could.
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
