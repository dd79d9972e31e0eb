//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/internal/machine"
)

// script runs a server, "$@", in the directory $1, and removes that. It ends when the server has
// ended, by itself or because standard input has reached its end: only our process holds the other
// end, so the server ends when our process does, even by kill -9.
const script = `
umask 077
cd "$1" || exit
dir=$1
shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{
	while read -r _; do :; done
	kill -KILL $server
} <&3 2>/dev/null &
wait $server
kill $! 2>/dev/null
cd /
umount -l "$dir" 2>/dev/null
rm -rf "$dir"
`

// stopTimeout bounds how long a server takes to end.
const stopTimeout = 30 * time.Second

// process is a server under script.
type process struct {
	addr   string // where others reach it
	direct string // where it listens; the same unless there is a network before it
	bus    string // the port on which the nodes of a cluster talk

	pid      int  // of the server itself; 0 before the first freeze
	isFrozen bool // by freeze
	isAway   bool // by Isolate

	log   *os.File // open, so that it can be read after the directory has been removed
	stdin io.Closer
	done  chan struct{} // closed when the server has ended and is tidied up
}

// start starts a server on a free port and waits until it accepts connections. A port that was free
// when it was picked may not be free when it is used, so it tries some.
func start(ctx context.Context, program string, args []string, o Options) (p *process, err error) {
	for range 3 {
		if p, err = run(program, args, o); err != nil {
			return nil, err
		}
		if err = p.ready(ctx); err == nil {
			return p, nil
		}
		err = errors.Join(err, p.stop())
	}
	return nil, err
}

// run starts a server in a session of its own, where ctrl-C does not reach it.
func run(program string, args []string, o Options) (*process, error) {
	port, bus, err := freePorts()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(machine.Memory(), "errand-redis-")
	if err != nil {
		return nil, err
	}
	if o.Prepare != nil {
		if err := o.Prepare(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	command := []string{program}
	if o.config != "" {
		path := filepath.Join(dir, "server.conf") // the server changes it
		if err := os.WriteFile(path, []byte(o.config), 0o600); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		command = append(command, path)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	line := slices.Concat([]string{"-c", script, "sh", dir}, command, []string{"--port", port, "--cluster-port", bus, "--logfile", log.Name()}, args)
	cmd := exec.Command("/bin/sh", line...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}, o.Environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, log.Close(), os.RemoveAll(dir))
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	p := &process{addr: addr, direct: addr, bus: bus, log: log, stdin: stdin, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // what there is to say is in the log
	}()
	return p, nil
}

// ready waits until the server answers.
func (p *process) ready(ctx context.Context) error {
	err := poll(ctx, "the server to answer", func() bool {
		if p.hasEnded() {
			return true
		}
		conn, err := p.client()
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if p.hasEnded() {
		return fmt.Errorf("redistest: the server on %s has ended, saying:\n%s", p.addr, p.said())
	}
	return err
}

// hasEnded reports whether the server has ended, for whatever reason.
func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// said returns the last kilobytes of what the server has logged.
func (p *process) said() string {
	const size = 2 << 10
	end, err := p.log.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(io.NewSectionReader(p.log, max(0, end-size), size))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// client returns a client of this node alone.
func (p *process) client() (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.direct}, DisableCache: true, ForceSingleClient: true})
}

// freeze stops the server as SIGSTOP does.
func (p *process) freeze(ctx context.Context) error {
	if p.pid == 0 {
		info, err := p.ask(ctx, "INFO", "server")
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		_, after, _ := strings.Cut(info, "process_id:")
		id, _, _ := strings.Cut(after, "\r\n")
		if p.pid, err = strconv.Atoi(id); err != nil {
			return fmt.Errorf("redistest: the server's process ID: %w", err)
		}
	}
	p.isFrozen = true
	return syscall.Kill(p.pid, syscall.SIGSTOP)
}

// thaw lets the server go on.
func (p *process) thaw() error {
	p.isFrozen = false
	return syscall.Kill(p.pid, syscall.SIGCONT)
}

// stop ends the server and waits until it has ended.
func (p *process) stop() error {
	p.stdin.Close()
	select {
	case <-p.done:
		_ = p.log.Close() // it may be closed already
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("redistest: the server on %s has not ended within %v", p.addr, stopTimeout)
	}
}

// freePorts returns two TCP ports that are free at this moment.
func freePorts() (port, bus string, err error) {
	var ports [2]string
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close()
		if _, ports[i], err = net.SplitHostPort(l.Addr().String()); err != nil {
			return "", "", err
		}
	}
	return ports[0], ports[1], nil
}
