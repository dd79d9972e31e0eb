package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kill ends every process of the server with SIGKILL, as the end of its container
// would. Its data stays as it is.
func (p *Postgres) Kill() error {
	children, err := p.signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	<-p.ended
	for _, pid := range children {
		for alive(pid) { // it has the shared memory until it is gone
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// Pause stops every process of the server where it is, as docker pause does with a container: what it is sent is taken in by the
// operating system, and nobody answers. Resume lets them go on.
func (p *Postgres) Pause() error {
	_, err := p.signal(syscall.SIGSTOP)
	return err
}

// Resume is after Pause.
func (p *Postgres) Resume() error {
	_, err := p.signal(syscall.SIGCONT)
	return err
}

// signal sends a signal to every process of the server, its first one last. That is stopped before, so that it starts no
// more children while they are being counted.
func (p *Postgres) signal(s syscall.Signal) (children []int, err error) {
	first := p.command.Process
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	children = childrenOf(first.Pid)
	for _, pid := range append(slices.Clone(children), first.Pid) {
		if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
			return children, err
		}
	}
	return children, nil
}

// KillSession ends one of the processes that serve a client of the database with
// SIGKILL, the draw says which. The server then ends all others and recovers by itself; when
// KillSession returns it can be connected to again.
func (p *Postgres) KillSession(ctx context.Context, database string, draw uint64) error {
	var pids []int
	query := "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = '" + database + "' ORDER BY pid"
	err := p.one(ctx, query, func(rows pgx.Rows) error {
		var pid int
		err := rows.Scan(&pid)
		pids = append(pids, pid)
		return err
	})
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("nobody is connected to %s", database)
	}
	victim := pids[draw%uint64(len(pids))]
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		return err
	}
	for there := true; there; _, _, there = readStat(victim) { // it stays there until the server has noticed
		time.Sleep(time.Millisecond)
	}
	return p.Ready(ctx)
}

// childrenOf lists the living children of a process. Where there is no /proc it knows
// none: those of a server that is killed end by themselves.
func childrenOf(pid int) (children []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // a constant pattern is a good one
	for _, path := range paths {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if _, parent, ok := readStat(child); ok && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// alive says whether a process is there, and not merely waiting for its parent to take
// note of its end.
func alive(pid int) bool {
	state, _, ok := readStat(pid)
	return ok && state != "Z" && state != "X"
}

func readStat(pid int) (state string, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	// The name, in parentheses, may hold anything; the state and the parent follow it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}
