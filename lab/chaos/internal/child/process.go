package child

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/errandhq/errand/lab/internal/process"
)

// Process is a child from its parent's side.
type Process struct {
	*process.Child
	killed      atomic.Bool
	mayEnd      atomic.Bool // it may end: it was told to, or will have done its part
	mayBeKilled atomic.Bool // it may be killed by SIGKILL, by whomever
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	p.killed.Store(true)
	p.Child.Kill()
	<-p.Ended()
}

// Expose has it expected from now on that the process is killed with SIGKILL by somebody else, such
// as by its own handlers.
func (p *Process) AllowKill() { p.mayBeKilled.Store(true) }

// wasKilled says whether SIGKILL has ended the process; only to be called when it has ended.
func (p *Process) wasKilled() bool {
	status, ok := p.State().Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Freeze stops the process with SIGSTOP; it does nothing until Thaw.
func (p *Process) Freeze() error { return p.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on, with SIGCONT.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// Terminate sends SIGTERM: it is to stop in good order. See Wait.
func (p *Process) Terminate() error {
	p.mayEnd.Store(true)
	return p.Signal(syscall.SIGTERM)
}

// Unexpected is an error if the process has ended although it should not have.
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

// Wait waits until the process has ended in good order. It is killed after the
// patience.
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
