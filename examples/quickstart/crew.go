package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// crew are the worker processes: this program once more, see workerMain.
type crew struct {
	members []*member
	quit    chan error // gets word of a member that has ended by itself
}

type member struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer     // closing it asks the worker to stop
	sent  chan struct{} // closed when it was sent away: killed or asked to stop
	ended chan struct{} // closed when the process has ended
	err   error         // what went wrong when it was asked to stop; to be read after ended
}

// dismissTimeout is how long a worker may take to stop: well over its Grace.
const dismissTimeout = 15 * time.Second

// hire starts a worker process for each name.
func hire(databaseURL, receiverURL string, names ...string) (*crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crew{quit: make(chan error, len(names))}
	for _, name := range names {
		cmd := exec.Command(self, "worker", name, receiverURL)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+databaseURL) // not an argument, which everyone on the machine can read
		cmd.Stderr = os.Stderr
		if err := c.start(name, cmd); err != nil {
			return nil, errors.Join(err, c.dismiss())
		}
	}
	return c, nil
}

func (c *crew) start(name string, cmd *exec.Cmd) error {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m := &member{name: name, cmd: cmd, stdin: stdin, sent: make(chan struct{}), ended: make(chan struct{})}
	c.members = append(c.members, m)
	go func() {
		defer close(m.ended)
		err := cmd.Wait()
		select {
		case <-m.sent:
			m.err = err
		default:
			c.quit <- fmt.Errorf("%s has ended: %v", name, cmd.ProcessState)
		}
	}()
	return nil
}

// kill ends a worker as kill -9 does, and returns when it is dead.
func (c *crew) kill(name string) error {
	for _, m := range c.members {
		if m.name == name {
			close(m.sent)
			err := m.cmd.Process.Kill()
			<-m.ended
			m.err = nil // it did not stop in good order, nor was it to
			return err
		}
	}
	return fmt.Errorf("no worker %q to be killed", name)
}

// dismiss stops all workers in good order and returns when they have ended; the
// error says which of them has not ended well. A second call does nothing.
func (c *crew) dismiss() error {
	for _, m := range c.members {
		select {
		case <-m.sent:
		default:
			close(m.sent)
			m.stdin.Close()
		}
	}
	var failed []error
	for _, m := range c.members {
		select {
		case <-m.ended:
		case <-time.After(dismissTimeout):
			failed = append(failed, m.cmd.Process.Kill())
			<-m.ended
		}
		if m.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, m.err))
		}
	}
	c.members = nil
	select {
	case err := <-c.quit: // one that has ended by itself since anyone looked
		failed = append(failed, err)
	default:
	}
	return errors.Join(failed...)
}

// String lists the workers with their process ids.
func (c *crew) String() string {
	var list []string
	for _, m := range c.members {
		list = append(list, fmt.Sprintf("%s is process %d", m.name, m.cmd.Process.Pid))
	}
	return strings.Join(list, ", ")
}
