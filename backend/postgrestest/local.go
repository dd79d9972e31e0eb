//go:build unix

package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/errandhq/errand/internal/machine"
)

// localScript makes a cluster in the directory $1 with the binaries in $2 and
// initdb's further arguments in $3, runs it with the arguments that follow, and
// removes the directory. The first line of its input is the password.
const localScript = `
umask 077
cd "$1" || exit
dir=$1 bin=$2 initdb_args=$3
shift 3
exec 3<&0
read -r password
echo "$password" >password
if "$bin/initdb" -D data -U tester --pwfile=password --auth=password --locale=C $initdb_args </dev/null; then
	set -- "$bin/postgres" -D data "$@"
` + superviseScript + `
fi
cd /
rm -rf "$dir"
`

// startLocal starts a server from the binaries on this machine.
func startLocal(ctx context.Context, o Options) (*Server, error) {
	bin, err := machine.PostgresBin()
	if err != nil {
		return nil, err
	}
	account, err := machine.PostgresAccount()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		s, err := launch(ctx, o, bin, account)
		// The port was free when it was picked; now and then it is not when it is used.
		if err == nil || try == 3 || !strings.Contains(err.Error(), "could not bind") {
			return s, err
		}
	}
}

// launch makes a cluster in a directory of its own and starts it on a free port.
func launch(ctx context.Context, o Options, bin string, account *syscall.Credential) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(dataParent(o), "errand-postgres-")
	if err != nil {
		return nil, err
	}
	log, err := handOver(dir, account)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	password := rand.Text()
	args := append([]string{dir, bin, strings.Join(o.initdbArgs(), " "),
		"-c", "listen_addresses=127.0.0.1", "-c", "port=" + port, "-c", "unix_socket_directories=" + dir}, o.args()...)
	p, err := supervise(log, password, account, args)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Server{
		base:  baseURL(net.JoinHostPort("127.0.0.1", port), password),
		where: "from " + bin + ", data in " + filepath.Join(dir, "data"),
		// The shell has removed dir, unless its account may not write in the parent.
		stop: func() error { return errors.Join(p.stop(), os.RemoveAll(dir)) },
	}
	if err := p.ready(ctx, s.base); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", bin, err), s.stop())
	}
	return s, nil
}

// dataParent returns the directory for the cluster's directory, or "" for the usual place for
// temporary files.
func dataParent(o Options) string {
	if o.Durable || os.Getenv("TMPDIR") != "" {
		return ""
	}
	return machine.Memory()
}

// handOver gives dir to account, unless that is nil, and returns the open log file in it. The log
// is created first: what root opens in a directory of another account can be a link to any file.
func handOver(dir string, account *syscall.Credential) (*os.File, error) {
	// The log stays readable through this handle after the directory has been removed.
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil || account == nil {
		return log, err
	}
	if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// serverEnv returns the variables of environ that initdb and postgres need. The server runs as
// another account where this process is root's, and secrets are not that account's business.
func serverEnv(environ []string) []string {
	env := []string{"LC_ALL=C"}
	for _, variable := range environ {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "PATH", "TZ", "LD_LIBRARY_PATH":
			env = append(env, variable)
		}
	}
	return env
}

// supervise starts localScript in a session of its own, where ctrl-C does not reach it. It takes
// over log.
func supervise(log *os.File, password string, account *syscall.Credential, args []string) (*process, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", localScript, "sh"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = serverEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: account}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{stdin: stdin, done: make(chan struct{}), log: func() string { return tail(log) }}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // what there is to say is in the log
	}()
	_, err = fmt.Fprintln(stdin, password)
	return p, err
}

// tail returns the last few kilobytes of f.
func tail(f *os.File) string {
	const size = 4 << 10
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, end-size), size))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// freePort returns a TCP port that is free at this moment.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
