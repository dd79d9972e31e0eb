// Package server makes PostgreSQL servers that can be killed and started again, each
// with settings of its own, from the binaries on this machine.
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

	"github.com/errandhq/errand/internal/pgbin"
	"github.com/errandhq/errand/lab/internal/server"
)

// janitorScript waits until its input is at its end, which is when the process that started it has
// ended, in whatever way; then it ends the servers in the directory $1, unmounts what is mounted
// there, and removes that. It runs as our own account, which may do so.
const janitorScript = `
while read -r _; do :; done
for file in "$1"/*/postmaster.pid "$1"/*/pgbouncer.pid; do
	read -r pid <"$file" && while kill -QUIT "$pid"; do sleep 0.1; done
done
for dir in "$1"/*/; do umount -l "$dir" 2>/dev/null; done
rm -rf "$1"
`

// Farm makes servers. The data of all is in one directory, which is gone when the
// program has ended. Start may be called concurrently.
type Farm struct {
	bin      string
	dir      string
	logs     string              // where the servers' logs go, dir unless they are kept
	account  *syscall.Credential // to run as; nil for our own
	password string
	janitor  io.Closer

	mu      sync.Mutex
	servers []*Postgres
	ports   map[string]bool // that servers have been given
}

// NewFarm finds the binaries and makes the data that each server begins with.
func NewFarm(ctx context.Context) (*Farm, error) {
	bin, err := pgbin.Find()
	if err != nil {
		return nil, err
	}
	account, err := pgbin.Account()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "errand-chaos-")
	if err != nil {
		return nil, err
	}
	f := &Farm{bin: bin, dir: dir, logs: dir, account: account, password: rand.Text(), ports: make(map[string]bool)}
	if err := f.prepare(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Farm) prepare(ctx context.Context) error {
	if err := f.own(f.dir); err != nil {
		return err
	}
	secret := filepath.Join(f.dir, "password")
	if err := os.WriteFile(secret, []byte(f.password), 0o600); err != nil {
		return err
	}
	if err := f.own(secret); err != nil {
		return err
	}
	if err := f.hireJanitor(); err != nil {
		return err
	}
	return f.run(ctx, filepath.Join(f.bin, "initdb"), "-D", f.template(), "-U", "errand", "--pwfile="+secret,
		"--auth=password", "--locale=C", "--encoding=UTF8", "--no-sync")
}

func (f *Farm) template() string { return filepath.Join(f.dir, "template") }

// Dir is where the servers' data is.
func (f *Farm) Dir() string { return f.dir }

// KeepLogs has the servers that are made from now on write their logs into a folder that stays.
func (f *Farm) KeepLogs(dir string) error {
	f.logs = dir
	return os.MkdirAll(dir, 0o755)
}

// log is the file of a server's log, without what is there from another run.
func (f *Farm) log(name string) string {
	path := filepath.Join(f.logs, name+".log")
	_ = os.Remove(path)
	return path
}

// own gives a file to the servers' account.
func (f *Farm) own(path string) error {
	if f.account == nil {
		return nil
	}
	return os.Chown(path, int(f.account.Uid), int(f.account.Gid))
}

// command is a program that runs as the servers' account, out of ctrl-C's reach.
func (f *Farm) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: f.account}
	return cmd
}

// run runs a program to its end.
func (f *Farm) run(ctx context.Context, name string, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if out, err := f.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (f *Farm) hireJanitor() error {
	cmd := f.command("/bin/sh", "-c", janitorScript, "sh", f.dir)
	cmd.SysProcAttr.Credential = nil
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.janitor = input
	go func() { _ = cmd.Wait() }() // it ends after us, or finds nothing to do
	return nil
}

// Close ends all servers and removes their data.
func (f *Farm) Close() error {
	var errs []error
	for _, s := range f.servers {
		errs = append(errs, s.Close())
	}
	errs = append(errs, os.RemoveAll(f.dir))
	if f.janitor != nil {
		errs = append(errs, f.janitor.Close())
	}
	return errors.Join(errs...)
}

// adopt has a server ended by Close.
func (f *Farm) adopt(p *Postgres) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = append(f.servers, p)
}

// port is a free port that it has not given before.
func (f *Farm) port() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		port, err := server.FreePort()
		if err != nil || !f.ports[port] {
			f.ports[port] = true
			return port, err
		}
	}
}
