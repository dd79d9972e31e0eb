package server

import (
	"errors"
	"fmt"
	"syscall"
)

// mount puts an empty file system in memory there.
func mount(dir, options string) error {
	err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w: %w", ErrNoDisk, err)
	}
	return err
}

// unmount takes it away, at once, whoever has files in it open.
func unmount(dir string) error {
	const detach = 2 // MNT_DETACH
	return syscall.Unmount(dir, detach)
}
