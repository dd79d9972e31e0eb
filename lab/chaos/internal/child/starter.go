package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/errandhq/errand/lab/internal/process"
)

// Starter starts children, all on one thread: the kernel kills children when the thread that
// started them ends.
type Starter struct {
	logs   string
	starts chan func()
}

// NewStarter returns a starter whose children log into files in the folder logs. Without a folder,
// "", only the end of a child's standard error is kept, for errors.
func NewStarter(logs string) *Starter {
	s := &Starter{logs: logs, starts: make(chan func())}
	settled := make(chan struct{})
	go s.serve(settled)
	<-settled
	return s
}

// serve starts children until Close. It must not run on the main thread, because Go never ends that
// thread. If it got the main thread, it holds it while a second goroutine, which so gets another
// thread, takes over.
func (s *Starter) serve(settled chan<- struct{}) {
	runtime.LockOSThread() // never unlocked, except on the main thread: so the thread ends with this function
	if onMainThread() {
		elsewhere := make(chan struct{})
		go s.serve(elsewhere)
		<-elsewhere
		runtime.UnlockOSThread()
		close(settled)
		return
	}
	close(settled)
	for start := range s.starts {
		start()
	}
}

// Close ends the children that still run, if the kernel does that on this system.
func (s *Starter) Close() { close(s.starts) }

// Start starts a child and waits until it is ready.
func (s *Starter) Start(spec Spec) (p *Process, err error) {
	var program []string
	if spec.Host.Program != "" {
		program = []string{spec.Host.Program, process.Argument}
	}
	args, err := process.Arguments(program, spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), spec.Host.Environment...)
	cmd.SysProcAttr = endWithParent()
	o := process.Options{Name: spec.Name, Command: cmd, Launch: s.launch}
	if s.logs != "" {
		if o.Log, err = os.OpenFile(filepath.Join(s.logs, spec.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, fmt.Errorf("%s: %w", spec.Name, err)
		}
	}
	p = &Process{}
	p.mayEnd.Store(slices.Contains(finite, spec.Part))
	if p.Child, err = process.Start(o); err != nil {
		return nil, err
	}
	return p, nil
}

// launch calls start on the starter's thread.
func (s *Starter) launch(start func() error) error {
	started := make(chan error)
	s.starts <- func() { started <- start() }
	return <-started
}
