package postgrestest

import (
	"os"
	"syscall"
)

// dataParent returns the directory for the cluster's directory, or "" for the usual place for
// temporary files. In memory, the hundreds of small files of each database come and go in a tenth
// of the time that they can take on disk.
func dataParent(o Options) string {
	const memory, plenty = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if o.Durable || os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &fs) != nil {
		return ""
	}
	if fs.Bavail*uint64(fs.Bsize) < plenty {
		return ""
	}
	return memory
}
