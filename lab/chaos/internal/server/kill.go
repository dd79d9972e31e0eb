package server

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/internal/process"
)

// Kill ends every process of the server with SIGKILL, as the end of its container would. Its data
// stay.
func (p *Postgres) Kill() error {
	children, err := p.signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	<-p.ended
	for _, pid := range children {
		for process.Alive(pid) { // the process holds the shared memory until its end
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// Pause stops every process of the server with SIGSTOP, as docker pause does. The operating system
// still accepts what clients send, and nobody answers. Resume lets the processes run again.
func (p *Postgres) Pause() error {
	_, err := p.signal(syscall.SIGSTOP)
	return err
}

// Resume ends a Pause.
func (p *Postgres) Resume() error {
	_, err := p.signal(syscall.SIGCONT)
	return err
}

// signal sends a signal to every process of the server, to the first one last. It first stops the
// first one, so that no more children start while they are listed.
func (p *Postgres) signal(s syscall.Signal) (children []int, err error) {
	first := p.command.Process
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	children = process.Children(first.Pid)
	for _, pid := range append(slices.Clone(children), first.Pid) {
		if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
			return children, err
		}
	}
	return children, nil
}

// KillSession kills one of the database's sessions with SIGKILL; the draw decides which. The server
// then ends all other sessions and recovers by itself. KillSession returns when a client can
// connect again.
func (p *Postgres) KillSession(ctx context.Context, database string, draw uint64) error {
	var pids []int
	query := "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = '" + database + "' ORDER BY pid"
	err := p.runStatement(ctx, query, func(rows pgx.Rows) error {
		var pid int
		err := rows.Scan(&pid)
		pids = append(pids, pid)
		return err
	})
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("no session is connected to %s", database)
	}
	victim := pids[draw%uint64(len(pids))]
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		return err
	}
	for process.Exists(victim) { // it is a zombie until the server has noticed
		time.Sleep(time.Millisecond)
	}
	return p.Ready(ctx)
}
