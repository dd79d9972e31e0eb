// Package server makes PostgreSQL servers from the binaries on this machine. They can be killed and
// started again, and each has settings of its own.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/errandhq/errand/internal/machine"
	"github.com/errandhq/errand/lab/internal/server"
)

// cleanupScript waits for the end of its input, which comes when the process that started it has
// ended for whatever reason. Then it ends the servers in the directory $1, unmounts their file
// systems, and removes the directory. It runs under our own account, which may do that.
const cleanupScript = `
while read -r _; do :; done
for file in "$1"/*/postmaster.pid "$1"/*/pgbouncer.pid; do
	read -r pid <"$file" && while kill -QUIT "$pid"; do sleep 0.1; done
done
for dir in "$1"/*/; do umount -l "$dir" 2>/dev/null; done
rm -rf "$1"
`

// Servers makes servers. Their data are in one directory, which is removed when the program ends.
// Start may be called concurrently.
type Servers struct {
	bin      string
	dir      string
	logs     string              // folder of the servers' logs: dir, unless they are kept
	account  *syscall.Credential // to run the servers; nil means our own
	password string
	cleaner  io.Closer

	mu      sync.Mutex
	started []*Postgres
	ports   map[string]bool // given to servers
}

// NewServers finds the binaries and makes the data that each server begins with.
func NewServers(ctx context.Context) (*Servers, error) {
	bin, err := machine.PostgresBin()
	if err != nil {
		return nil, err
	}
	account, err := machine.PostgresAccount()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "errand-chaos-")
	if err != nil {
		return nil, err
	}
	s := &Servers{bin: bin, dir: dir, logs: dir, account: account, password: rand.Text(), ports: make(map[string]bool)}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Servers) prepare(ctx context.Context) error {
	if err := s.chown(s.dir); err != nil {
		return err
	}
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	if err := s.chown(secret); err != nil {
		return err
	}
	if err := s.startCleaner(); err != nil {
		return err
	}
	return s.run(ctx, filepath.Join(s.bin, "initdb"), "-D", s.template(), "-U", "errand", "--pwfile="+secret,
		"--auth=password", "--locale=C", "--encoding=UTF8", "--no-sync")
}

func (s *Servers) template() string { return filepath.Join(s.dir, "template") }

// Dir returns the directory of the servers' data.
func (s *Servers) Dir() string { return s.dir }

// KeepLogs makes servers that start later write their logs into a folder that is kept.
func (s *Servers) KeepLogs(dir string) error {
	s.logs = dir
	return os.MkdirAll(dir, 0o755)
}

// log returns the path of a server's log. It removes the log of an earlier run.
func (s *Servers) log(name string) string {
	path := filepath.Join(s.logs, name+".log")
	_ = os.Remove(path)
	return path
}

// chown gives a file to the servers' account.
func (s *Servers) chown(path string) error {
	if s.account == nil {
		return nil
	}
	return os.Chown(path, int(s.account.Uid), int(s.account.Gid))
}

// command returns a command that runs under the servers' account. ctrl-C does not reach it.
func (s *Servers) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.account}
	return cmd
}

// run runs a program to its end.
func (s *Servers) run(ctx context.Context, name string, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (s *Servers) startCleaner() error {
	cmd := s.command("/bin/sh", "-c", cleanupScript, "sh", s.dir)
	cmd.SysProcAttr.Credential = nil
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cleaner = input
	go func() { _ = cmd.Wait() }() // it ends after us, or has nothing to do
	return nil
}

// Close ends all servers and removes their data.
func (s *Servers) Close() error {
	var errs []error
	for _, p := range s.started {
		errs = append(errs, p.Close())
	}
	errs = append(errs, os.RemoveAll(s.dir))
	if s.cleaner != nil {
		errs = append(errs, s.cleaner.Close())
	}
	return errors.Join(errs...)
}

// register makes Close end a server.
func (s *Servers) register(p *Postgres) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, p)
}

// port returns a free port that it has not given before.
func (s *Servers) port() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		port, err := server.FreePort()
		if err != nil || !s.ports[port] {
			s.ports[port] = true
			return port, err
		}
	}
}
