//go:build linux || darwin || freebsd

package reader

import "syscall"

// freeBytes returns how many bytes this account may still write on the disk of the folder.
func freeBytes(folder string) (n int64, ok bool) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, false
	}
	return int64(uint64(fs.Bavail) * uint64(fs.Bsize)), true
}
