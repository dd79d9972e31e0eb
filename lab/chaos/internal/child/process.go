package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is a child from its parent's side.
type Process struct {
	Name    string
	command *exec.Cmd
	input   io.WriteCloser
	words   lastWords
	file    *os.File      // of its log, or nil
	ready   chan struct{} // closed when it is ready
	ended   chan struct{} // closed when it has ended: err and at are there
	killed  atomic.Bool
	doomed  atomic.Bool // it may end: it was told to, or will have done its part
	mortal  atomic.Bool // it may be killed by SIGKILL, by whomever
	err     error
	at      time.Time // when it ended
}

// listen takes in what the child says, to its end.
func (p *Process) listen(output *bufio.Scanner) {
	defer close(p.ended)
	for output.Scan() {
		if output.Text() == "ready" {
			close(p.ready)
		}
	}
	p.err = p.command.Wait()
	p.at = time.Now()
	if p.file != nil {
		p.file.Close()
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	p.killed.Store(true)
	_ = p.command.Process.Kill() // it may have ended
	<-p.ended
}

// Expose has it expected from now on that the process is killed with SIGKILL by somebody else, such as
// by its own handlers.
func (p *Process) Expose() { p.mortal.Store(true) }

// wasKilled says whether SIGKILL has ended the process; only to be called when it has ended.
func (p *Process) wasKilled() bool {
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Freeze stops the process with SIGSTOP; it does nothing until Thaw.
func (p *Process) Freeze() error { return p.command.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on, with SIGCONT.
func (p *Process) Thaw() error { return p.command.Process.Signal(syscall.SIGCONT) }

// Terminate sends SIGTERM: it is to stop in good order. See Wait.
func (p *Process) Terminate() error {
	p.doomed.Store(true)
	return p.command.Process.Signal(syscall.SIGTERM)
}

// Tell sends a line to the process.
func (p *Process) Tell() error {
	_, err := io.WriteString(p.input, "go\n")
	return err
}

// PID is the number that the operating system knows the process by.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// EndedAt is when it ended; only to be called then.
func (p *Process) EndedAt() time.Time { return p.at }

// Unexpected is an error if the process has ended although it should not have.
func (p *Process) Unexpected() error {
	select {
	case <-p.ended:
	default:
		return nil
	}
	if p.killed.Load() || p.doomed.Load() && p.err == nil || p.mortal.Load() && p.wasKilled() {
		return nil
	}
	return p.failure(errors.New("it ended by itself"))
}

// Wait waits until the process has ended in good order. It is killed after the
// patience.
func (p *Process) Wait(patience time.Duration) error {
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Kill()
		return p.failure(fmt.Errorf("it did not end within %v", patience))
	}
	if p.err != nil {
		return p.failure(nil)
	}
	return nil
}

// failure is why the process, which has ended, failed.
func (p *Process) failure(why error) error {
	err := errors.Join(why, p.err)
	if words := p.words.String(); words != "" {
		err = fmt.Errorf("%w: %s", err, words)
	}
	return fmt.Errorf("%s: %w", p.Name, err)
}

// lastWords keeps the end of what is written to it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(b []byte) (int, error) {
	const most = 2000
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-most):]
	return len(b), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.text))
}
