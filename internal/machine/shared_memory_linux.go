package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// SharedMemory makes a directory in memory that all test runs of this account share. It returns ""
// if there is no room: see Memory. The name is always the same: go test takes the result of a test
// that has read TMPDIR from its cache only if TMPDIR is as it was. The caller must call release
// when it has finished; the last caller to do so removes the directory with all that is in it.
func SharedMemory() (dir string, release func() error, err error) {
	memory := Memory()
	if memory == "" {
		return "", func() error { return nil }, nil
	}
	dir = filepath.Join(memory, fmt.Sprint("errand-tests-", os.Getuid()))
	release, err = share(dir)
	return dir, release, err
}

// share makes dir, unless it exists, and holds a shared lock on it until release is called.
func share(dir string) (release func() error, err error) {
	for {
		if err := makeOwn(dir); err != nil {
			return nil, err
		}
		lock, err := os.Open(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		if isAt(lock, dir) {
			return func() error { return leave(lock, dir) }, nil
		}
		lock.Close() // another run has removed the directory meanwhile
	}
}

// makeOwn makes dir. If dir exists, makeOwn returns an error unless dir is a directory of this
// account: anybody may create files in memory.
func makeOwn(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // another run has removed it
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a directory of this account: remove it, or set TMPDIR", dir)
	}
	err = os.Chmod(dir, 0o711) // whatever the umask: servers of tests run under another account
	if errors.Is(err, os.ErrNotExist) {
		return nil // another run has removed it
	}
	return err
}

// isAt reports whether lock is the directory that has the name dir now.
func isAt(lock *os.File, dir string) bool {
	held, err := lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(dir)
	return err == nil && os.SameFile(held, named)
}

// leave removes dir with all that is in it, unless another run has a lock on it.
func leave(lock *os.File, dir string) error {
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	return os.RemoveAll(dir)
}
