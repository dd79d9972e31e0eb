package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Process is a child from its parent's side.
type Process struct {
	name    string
	command *exec.Cmd
	input   io.WriteCloser
	handled atomic.Int64
	ready   chan struct{} // closed when it is ready
	ended   chan struct{} // closed when it has ended: result and err are there

	mu      sync.Mutex
	samples []Figures
	changed chan struct{} // signals a count or a sample

	result *Result
	err    error
}

// Start starts a child and waits until it is ready. program is nil for this very
// program. The end of ctx kills the child.
func Start(ctx context.Context, program []string, spec Spec) (*Process, error) {
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
	p := &Process{
		name:    spec.System + " " + spec.Part,
		command: exec.CommandContext(ctx, program[0], append(program[1:], string(text))...),
		ready:   make(chan struct{}),
		ended:   make(chan struct{}),
		changed: make(chan struct{}, 1),
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case <-p.ready:
		return p, nil
	case <-p.ended:
		return nil, p.failure()
	}
}

func (p *Process) start() error {
	p.command.Stderr = &lastWords{}
	var err error
	if p.input, err = p.command.StdinPipe(); err != nil {
		return err
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		return err
	}
	go p.listen(output)
	return nil
}

// listen takes in what the child says, to its end.
func (p *Process) listen(output io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.hear(lines.Text())
	}
	p.err = errors.Join(p.err, lines.Err(), p.command.Wait())
}

func (p *Process) hear(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "ready":
		close(p.ready)
	case "count":
		n, err := strconv.ParseInt(rest, 10, 64)
		p.err = errors.Join(p.err, err)
		p.handled.Store(n)
		p.signal()
	case "sample":
		var f Figures
		p.err = errors.Join(p.err, json.Unmarshal([]byte(rest), &f))
		p.mu.Lock()
		p.samples = append(p.samples, f)
		p.mu.Unlock()
		p.signal()
	case "result":
		p.err = errors.Join(p.err, json.Unmarshal([]byte(rest), &p.result))
	default:
		p.err = errors.Join(p.err, fmt.Errorf("it said %.100q", line))
	}
}

func (p *Process) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Go lets the child begin.
func (p *Process) Go() error {
	_, err := io.WriteString(p.input, "go\n")
	return err
}

// Handled is how many jobs its handler has run, as far as it has said.
func (p *Process) Handled() int64 { return p.handled.Load() }

// Samples are those that the child has taken so far.
func (p *Process) Samples() []Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.samples[:len(p.samples):len(p.samples)]
}

// Changed receives after a new count or sample.
func (p *Process) Changed() <-chan struct{} { return p.changed }

// Ended is closed when the child has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// stopTimeout is how long a child may take to stop in good order.
const stopTimeout = 40 * time.Second

// Stop tells the child to stop and returns its result.
func (p *Process) Stop() (Result, error) {
	p.input.Close()
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		p.Kill()
		<-p.ended
		p.err = errors.Join(p.err, fmt.Errorf("it did not stop within %v", stopTimeout))
	}
	return p.Wait()
}

// Wait waits until the child has ended by itself and returns its result.
func (p *Process) Wait() (Result, error) {
	<-p.ended
	if p.err != nil || p.result == nil {
		return Result{}, p.failure()
	}
	return *p.result, nil
}

// Kill ends the child at once. It is harmless on one that has ended.
func (p *Process) Kill() { _ = p.command.Process.Kill() }

// failure is why the child, which has ended, failed.
func (p *Process) failure() error {
	err := p.err
	if err == nil {
		err = errors.New("it ended without a result")
	}
	if words := p.command.Stderr.(*lastWords).String(); words != "" {
		err = fmt.Errorf("%w: %s", err, words)
	}
	return fmt.Errorf("%s: %w", p.name, err)
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
