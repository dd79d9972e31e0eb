package process

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU returns the processor time that this process has used, in user mode and in the kernel.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PeakRSS returns the most resident memory that this process has had, in bytes. The kernel's own
// record of the peak does not serve: it begins with the parent's.
func PeakRSS() int64 {
	if n, err := statusField("VmHWM"); err == nil {
		return n
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss // in bytes, on the BSDs, which have no /proc
}

// RSS returns the resident memory of this process in bytes, or 0.
func RSS() int64 {
	n, _ := statusField("VmRSS")
	return n
}

// Written returns how many bytes this process has written to disk, or 0 if that is unknown. A page
// of a file that is written twice before it reaches the disk counts once.
func Written() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

func statusField(name string) (bytes int64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("no " + name)
}
