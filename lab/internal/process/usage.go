package process

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU is the processor time that this process has used, in user mode and in the
// kernel.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PeakRSS is the most memory that this process has had resident, in bytes. The
// kernel's own record of the peak is not it: that begins with the parent's.
func PeakRSS() int64 {
	if n, err := statusField("VmHWM"); err == nil {
		return n
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss // in bytes where there is no /proc: the BSDs'
}

// RSS is the memory that this process has resident now, in bytes, or 0.
func RSS() int64 {
	n, _ := statusField("VmRSS")
	return n
}

// Written is how many bytes this process has had written to disk, or 0 where that is not known.
// What goes over the same page of a file before that is on disk counts once.
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
