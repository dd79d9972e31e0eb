package server

import (
	"errors"
	"fmt"
	"syscall"
)

// mount mounts an empty file system in memory at dir.
func mount(dir, options string) error {
	err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w: %w", ErrNoDisk, err)
	}
	return err
}

// unmount unmounts it at once, even if processes have its files open.
func unmount(dir string) error {
	const detach = 2 // MNT_DETACH
	return syscall.Unmount(dir, detach)
}
