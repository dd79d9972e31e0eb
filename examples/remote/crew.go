package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

const (
	// lease is that of every worker.
	lease = 2 * time.Second
	// endTimeout is how long a worker may take to end: a slow job takes 1.5 leases.
	endTimeout = 10 * time.Second
)

var (
	//go:embed worker.py
	pythonWorker string
	//go:embed worker.mjs
	nodeWorker string
)

// crew are the workers.
type crew struct {
	environment []string // of those in other languages
	python      *exec.Cmd
	node        *exec.Cmd
	endGo       func() error
}

// startCrew starts a worker in each language that this machine has.
func startCrew(ctx context.Context, gateways []string, token string) (c *crew, err error) {
	c = &crew{environment: append(os.Environ(), "GATEWAYS="+strings.Join(gateways, " "), "TOKEN="+token)}
	if c.endGo, err = startGo(ctx, gateways, token); err != nil {
		return nil, err
	}
	if c.python, err = c.start("python3", "-c", pythonWorker); err == nil {
		c.node, err = c.start("node", "--input-type=module", "--eval", nodeWorker)
	}
	if err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// startGo starts the worker in Go. end ends it.
func startGo(ctx context.Context, gateways []string, token string) (end func() error, err error) {
	q, err := remote.New(gateways, remote.Options{Token: token})
	if err != nil {
		return nil, err
	}
	mux := queue.NewMux()
	CountWords.Handle(mux, func(ctx context.Context, _ *queue.Job, t Text) error {
		select {
		case <-time.After(time.Duration(t.MS) * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return queue.SetOutput(ctx, Count{Words: len(strings.Fields(t.Text)), By: "go"})
	})
	w := engine.Worker{
		Backend: q, Queues: []string{CountWords.Queue}, Concurrency: 4, Lease: lease,
		Handler: queue.Chain(mux, middleware.Recover),
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// start starts a worker in another language. It returns nil if this machine does not have that
// language, which is an error in CI.
func (c *crew) start(program string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") != "" {
			return nil, err
		}
		fmt.Printf("without a worker for %s, which is not installed\n", program)
		return nil, nil
	}
	cmd := exec.Command(path, args...)
	cmd.Env = c.environment
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd, nil
}

// replacePython kills the worker in Python and starts another. What the first one ran runs again
// when its lease has expired.
func (c *crew) replacePython() {
	if c.python == nil {
		return
	}
	_ = c.python.Process.Kill()
	_ = c.python.Wait() // it was killed
	var err error
	if c.python, err = c.start("python3", "-c", pythonWorker); err != nil {
		fmt.Fprintln(os.Stderr, "remote:", err)
	}
}

// end ends the workers when they have settled what they run. The caller calls it once.
func (c *crew) end() error {
	errs := []error{c.endGo()}
	for _, cmd := range []*exec.Cmd{c.python, c.node} {
		if cmd != nil {
			errs = append(errs, endProcess(cmd))
		}
	}
	return errors.Join(errs...)
}

// endProcess asks a worker to end, and waits for that. After endTimeout it kills the worker. It
// returns an error if the worker has failed.
func endProcess(cmd *exec.Cmd) error {
	if runtime.GOOS == "windows" { // has no SIGTERM
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	defer time.AfterFunc(endTimeout, func() { _ = cmd.Process.Kill() }).Stop() // fails if it has ended
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("worker of %s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}
