// Package proc reads what processes have used: memory and processor time. Where
// there is no /proc it knows less, and says so.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// Written is how many bytes this process has had written to disk, or 0 where that is not known. What goes over the
// same page of a file before that is on disk counts once.
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

// ticks a second, of the times in /proc: the same on every Linux.
const ticks = 100

// stat is what /proc says of a process.
type stat struct {
	parent   int
	own      int64 // ticks
	children int64 // ticks, of those that have ended
}

// ServerCPU is the processor time of a server's first process and of all that it
// has started, ended or not. ok is false where it cannot be told.
func ServerCPU(pid int) (used time.Duration, ok bool) {
	for {
		before, err := readStat(pid)
		if err != nil {
			return 0, false
		}
		living := childrenOf(pid)
		after, err := readStat(pid)
		if err != nil {
			return 0, false
		}
		if before.children == after.children { // else one ended meanwhile, and may be counted twice or not at all
			return time.Duration(after.own+after.children+living) * time.Second / ticks, true
		}
	}
}

// childrenOf is the time, in ticks, of the living children of a process.
func childrenOf(pid int) (total int64) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // a constant pattern is a good one
	for _, path := range paths {
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if s, err := readStat(id); err == nil && s.parent == pid {
			total += s.own
		}
	}
	return total
}

func readStat(pid int) (s stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	// The name, in parentheses, may hold anything; the state follows it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return s, errors.New("/proc: stat is short")
	}
	n := func(i int) int64 {
		v, e := strconv.ParseInt(fields[i], 10, 64)
		err = errors.Join(err, e)
		return v
	}
	s = stat{parent: int(n(1)), own: n(11) + n(12), children: n(13) + n(14)}
	return s, err
}
