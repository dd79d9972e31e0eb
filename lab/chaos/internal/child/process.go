package child

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/errandhq/errand/lab/internal/process"
)

// Process is a child, as its parent sees it.
type Process struct {
	*process.Child
	killed      atomic.Bool
	mayEnd      atomic.Bool // it was told to end, or ends by itself
	mayBeKilled atomic.Bool // its own handlers may kill it with SIGKILL
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	p.killed.Store(true)
	p.Child.Kill()
	<-p.Ended()
}

// AllowKill makes an end by SIGKILL expected from now on, for example by the process's own
// handlers.
func (p *Process) AllowKill() { p.mayBeKilled.Store(true) }

// wasKilled reports whether SIGKILL has ended the process. The process must have ended.
func (p *Process) wasKilled() bool {
	status, ok := p.State().Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Freeze stops the process with SIGSTOP, until Thaw.
func (p *Process) Freeze() error { return p.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process run again, with SIGCONT.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// Terminate sends SIGTERM, which asks the process to stop gracefully. See Wait.
func (p *Process) Terminate() error {
	p.mayEnd.Store(true)
	return p.Signal(syscall.SIGTERM)
}

// Unexpected returns an error if the process has ended and should not have.
func (p *Process) Unexpected() error {
	select {
	case <-p.Ended():
	default:
		return nil
	}
	if p.killed.Load() || p.mayEnd.Load() && p.Err() == nil || p.mayBeKilled.Load() && p.wasKilled() {
		return nil
	}
	return p.Failure(errors.New("it ended by itself"))
}

// Wait waits until the process has stopped gracefully. It kills the process after the patience.
func (p *Process) Wait(patience time.Duration) error {
	select {
	case <-p.Ended():
	case <-time.After(patience):
		p.Kill()
		return p.Failure(fmt.Errorf("it did not end within %v", patience))
	}
	if p.Err() != nil {
		return p.Failure(nil)
	}
	return nil
}
