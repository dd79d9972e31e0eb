package child

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// Nursery starts children. All are started by one thread, because it is that thread's
// end at which the kernel ends them.
type Nursery struct {
	logs   string
	starts chan func()
}

// NewNursery returns a nursery whose children log into files in the folder logs; ""
// means that only the end of what they say is kept, for errors.
func NewNursery(logs string) *Nursery {
	n := &Nursery{logs: logs, starts: make(chan func())}
	settled := make(chan struct{})
	go n.serve(settled)
	<-settled
	return n
}

// serve starts children until the nursery is closed. Go never ends the main thread: where it has got that, it leaves the
// work to another, which cannot get it while this one has it.
func (n *Nursery) serve(settled chan<- struct{}) {
	runtime.LockOSThread() // unlocked only there: the thread ends with this function
	if onMainThread() {
		elsewhere := make(chan struct{})
		go n.serve(elsewhere)
		<-elsewhere
		runtime.UnlockOSThread()
		close(settled)
		return
	}
	close(settled)
	for start := range n.starts {
		start()
	}
}

// Close ends the children that still live, where the kernel does that.
func (n *Nursery) Close() { close(n.starts) }

// Start starts a child and waits until it is ready.
func (n *Nursery) Start(spec Spec) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program = cmp.Or(spec.Host.Program, program)
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: spec.Name, command: exec.Command(program, Argument, string(text)), ready: make(chan struct{}), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), spec.Host.Environment...)
	p.doomed.Store(slices.Contains(finite, spec.Part))
	if err := n.start(p); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	select {
	case <-p.ready:
		return p, nil
	case <-p.ended:
		return nil, p.failure(errors.New("it ended before it was ready"))
	}
}

func (n *Nursery) start(p *Process) error {
	var err error
	if p.command.Stderr, err = n.log(p); err != nil {
		return err
	}
	p.command.SysProcAttr = endWithParent()
	if p.input, err = p.command.StdinPipe(); err != nil {
		return err
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan error)
	n.starts <- func() { started <- p.command.Start() }
	if err := <-started; err != nil {
		return err
	}
	go p.listen(bufio.NewScanner(output))
	return nil
}

// log is where a child's standard error goes.
func (n *Nursery) log(p *Process) (io.Writer, error) {
	if n.logs == "" {
		return &p.words, nil
	}
	f, err := os.OpenFile(filepath.Join(n.logs, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p.file = f
	return io.MultiWriter(f, &p.words), nil
}
