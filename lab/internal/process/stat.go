package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is how many ticks of /proc's times make a second. It is the same on every Linux.
const ticks = 100

// stat is what /proc says of a process.
type stat struct {
	state    string
	parent   int
	own      int64 // ticks
	children int64 // ticks, of children that have ended
}

// Exists reports whether a process exists. Without /proc it returns false.
func Exists(pid int) bool {
	_, err := readStat(pid)
	return err == nil
}

// Alive reports whether a process runs. It returns false for a zombie.
func Alive(pid int) bool {
	s, err := readStat(pid)
	return err == nil && s.state != "Z" && s.state != "X"
}

// Children lists the children of a process, zombies included. Without /proc it lists none.
func Children(pid int) []int {
	var children []int
	eachChild(pid, func(child int, _ stat) { children = append(children, child) })
	return children
}

// ServerCPU returns the processor time of a server's first process and of all its children, ended
// or not. ok is false if it is unknown.
func ServerCPU(pid int) (used time.Duration, ok bool) {
	for {
		before, err := readStat(pid)
		if err != nil {
			return 0, false
		}
		living := int64(0)
		eachChild(pid, func(_ int, s stat) { living += s.own })
		after, err := readStat(pid)
		if err != nil {
			return 0, false
		}
		if before.children == after.children { // else a child ended meanwhile, and may be counted twice or not at all
			return time.Duration(after.own+after.children+living) * time.Second / ticks, true
		}
	}
}

// Used returns the processor time of a process without that of its children. ok is false if it is
// unknown.
func Used(pid int) (used time.Duration, ok bool) {
	s, err := readStat(pid)
	return time.Duration(s.own) * time.Second / ticks, err == nil
}

// eachChild calls f for each child of a process.
func eachChild(pid int, f func(child int, s stat)) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is constant and valid
	for _, path := range paths {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == pid {
			f(child, s)
		}
	}
}

func readStat(pid int) (s stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	// The name, in parentheses, may contain anything. The state follows it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return s, errors.New("/proc: stat is short")
	}
	n := func(i int) int64 {
		v, e := strconv.ParseInt(fields[i], 10, 64)
		err = errors.Join(err, e)
		return v
	}
	s = stat{state: fields[0], parent: int(n(1)), own: n(11) + n(12), children: n(13) + n(14)}
	return s, err
}
