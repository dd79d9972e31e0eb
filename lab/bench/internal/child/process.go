package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/lab/internal/process"
)

// Process is a child, as its parent sees it.
type Process struct {
	*process.Child
	handled atomic.Int64

	mu      sync.Mutex
	samples []Figures
	changed chan struct{} // signals a count or a sample

	result *Result // set when the child has ended
}

// Start starts a child and waits until it is ready. A program of nil means this program. The end of
// ctx kills the child.
func Start(ctx context.Context, program []string, spec Spec) (p *Process, err error) {
	args, err := process.Arguments(program, spec)
	if err != nil {
		return nil, err
	}
	p = &Process{changed: make(chan struct{}, 1)}
	p.Child, err = process.Start(process.Options{
		Name:    spec.System + " " + spec.Part,
		Command: exec.CommandContext(ctx, args[0], args[1:]...),
		Hear:    p.hear,
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// hear handles a line that the child has printed.
func (p *Process) hear(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "count":
		n, err := strconv.ParseInt(rest, 10, 64)
		p.handled.Store(n)
		p.signal()
		return err
	case "sample":
		var f Figures
		err := json.Unmarshal([]byte(rest), &f)
		p.mu.Lock()
		p.samples = append(p.samples, f)
		p.mu.Unlock()
		p.signal()
		return err
	case "result":
		return json.Unmarshal([]byte(rest), &p.result)
	}
	return fmt.Errorf("it said %.100q", line)
}

func (p *Process) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Handled returns how many jobs the child's handler has run, as far as the child has told.
func (p *Process) Handled() int64 { return p.handled.Load() }

// Samples returns the samples that the child has taken so far.
func (p *Process) Samples() []Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.samples[:len(p.samples):len(p.samples)]
}

// Changed receives a value after a new count or sample.
func (p *Process) Changed() <-chan struct{} { return p.changed }

// stopTimeout bounds how long a child takes to stop.
const stopTimeout = 40 * time.Second

// Stop tells the child to stop and returns its result.
func (p *Process) Stop() (Result, error) {
	_ = p.CloseInput() // the child may have ended
	select {
	case <-p.Ended():
		return p.Wait()
	case <-time.After(stopTimeout):
		p.Kill()
		return Result{}, p.Failure(fmt.Errorf("it did not stop within %v", stopTimeout))
	}
}

// Wait waits until the child has ended by itself and returns its result.
func (p *Process) Wait() (Result, error) {
	switch err := p.Err(); {
	case err != nil:
		return Result{}, p.Failure(nil)
	case p.result == nil:
		return Result{}, p.Failure(errors.New("it ended without a result"))
	}
	return *p.result, nil
}
