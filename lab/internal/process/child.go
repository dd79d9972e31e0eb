package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Child is a child process, as its parent sees it. Its methods may be called concurrently.
type Child struct {
	Name    string
	command *exec.Cmd
	input   io.WriteCloser
	words   lastWords
	ready   chan struct{} // closed when the child is ready
	ended   chan struct{} // closed when the child has ended, and err and at are set
	err     error
	at      time.Time // when the child ended
}

// Options say how to start a child.
type Options struct {
	Name    string         // prefix of its errors
	Command *exec.Cmd      // see [Arguments]; Start sets its standard streams
	Log     io.WriteCloser // if not nil, gets the child's standard error, and is closed at its end

	// Hear, if not nil, is called with each line of the child's standard output except "ready". Its
	// error becomes the child's.
	Hear func(line string) error
	// Launch, if not nil, calls start on a thread of its choice and returns start's error.
	Launch func(start func() error) error
}

// Arguments returns the command line of a child: the program, and spec in JSON. A program of nil
// means this program.
func Arguments(program []string, spec any) ([]string, error) {
	if program == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = []string{self, Argument}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return append(program[:len(program):len(program)], string(text)), nil
}

// Start starts a child and waits until it is ready.
func Start(o Options) (*Child, error) {
	c := &Child{Name: o.Name, command: o.Command, ready: make(chan struct{}), ended: make(chan struct{})}
	if err := c.start(o); err != nil {
		if o.Log != nil {
			o.Log.Close()
		}
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	select {
	case <-c.ready:
		return c, nil
	case <-c.ended:
		return nil, c.Failure(errors.New("it ended before it was ready"))
	}
}

func (c *Child) start(o Options) error {
	c.command.Stderr = &c.words
	if o.Log != nil {
		c.command.Stderr = io.MultiWriter(o.Log, &c.words)
	}
	var err error
	if c.input, err = c.command.StdinPipe(); err != nil {
		return err
	}
	output, err := c.command.StdoutPipe()
	if err != nil {
		return err
	}
	launch := o.Launch
	if launch == nil {
		launch = func(start func() error) error { return start() }
	}
	if err := launch(c.command.Start); err != nil {
		return err
	}
	go c.listen(output, o)
	return nil
}

// listen reads the child's output to its end.
func (c *Child) listen(output io.Reader, o Options) {
	defer close(c.ended)
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "ready":
			close(c.ready)
		case o.Hear != nil:
			c.err = errors.Join(c.err, o.Hear(line))
		}
	}
	c.err = errors.Join(c.err, lines.Err(), c.command.Wait())
	c.at = time.Now()
	if o.Log != nil {
		o.Log.Close()
	}
}

// Go tells the child to go on.
func (c *Child) Go() error {
	_, err := io.WriteString(c.input, "go\n")
	return err
}

// CloseInput ends the child's standard input.
func (c *Child) CloseInput() error { return c.input.Close() }

// Kill ends the child with SIGKILL. It does not wait for the end. On a child that has ended it does
// nothing.
func (c *Child) Kill() { _ = c.command.Process.Kill() }

// Signal sends the child a signal.
func (c *Child) Signal(s os.Signal) error { return c.command.Process.Signal(s) }

// PID returns the child's process ID.
func (c *Child) PID() int { return c.command.Process.Pid }

// Ended returns a channel that is closed when the child has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// EndedAt waits for the child's end, and returns when it was.
func (c *Child) EndedAt() time.Time {
	<-c.ended
	return c.at
}

// State waits for the child's end, and returns what the operating system says about it.
func (c *Child) State() *os.ProcessState {
	<-c.ended
	return c.command.ProcessState
}

// Err waits for the child's end, and returns its error or nil.
func (c *Child) Err() error {
	<-c.ended
	return c.err
}

// Failure waits for the child's end. It returns one error of why, Err, and the end of the child's
// standard error.
func (c *Child) Failure(why error) error {
	err := errors.Join(why, c.Err())
	if words := c.words.String(); words != "" {
		err = fmt.Errorf("%w: %s", err, words)
	}
	return fmt.Errorf("%s: %w", c.Name, err)
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
