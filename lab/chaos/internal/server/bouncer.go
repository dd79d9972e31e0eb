package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer is a PgBouncer in transaction mode in front of a server.
type Bouncer struct {
	Version string // for example 1.18.0
	servers *Servers
	server  *Postgres
	dir     string
	port    string
	command *exec.Cmd
	ended   chan struct{}
}

// PoolSize is how many connections a [Bouncer] opens to the server for each database.
const PoolSize = 40

// bouncerINI is the configuration. What it does not name has PgBouncer's default.
// server_login_retry lets PgBouncer retry a server after one second instead of fifteen.
const bouncerINI = `[databases]
* = host=127.0.0.1 port=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
pidfile = %s
auth_type = plain
auth_file = %s
admin_users = errand
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_login_retry = 1
`

// StartBouncer starts a PgBouncer in front of the server. It returns when a client can connect
// through it.
func (p *Postgres) StartBouncer(ctx context.Context, name string) (*Bouncer, error) {
	program, err := findBouncer()
	if err != nil {
		return nil, err
	}
	b := &Bouncer{servers: p.servers, server: p, dir: filepath.Join(p.servers.dir, name)}
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	b.Version, _, _ = strings.Cut(strings.TrimPrefix(string(version), "PgBouncer "), "\n")
	if b.port, err = p.servers.port(); err != nil {
		return nil, err
	}
	ini, err := b.write()
	if err != nil {
		return nil, err
	}
	return b, b.start(ctx, program, ini)
}

// findBouncer also looks into the folders of packages, which may not be in PATH.
func findBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no pgbouncer: apt-get install pgbouncer, or brew install pgbouncer")
}

// write writes PgBouncer's configuration.
func (b *Bouncer) write() (ini string, err error) {
	ini, users := filepath.Join(b.dir, "pgbouncer.ini"), filepath.Join(b.dir, "users.txt")
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return "", err
	}
	for path, text := range map[string]string{
		ini:   fmt.Sprintf(bouncerINI, b.server.port, b.port, filepath.Join(b.dir, "pgbouncer.pid"), users, PoolSize),
		users: fmt.Sprintf("%q %q\n", "errand", b.servers.password),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		if err := b.servers.chown(path); err != nil {
			return "", err
		}
	}
	return ini, b.servers.chown(b.dir)
}

func (b *Bouncer) start(ctx context.Context, program, ini string) error {
	log, err := os.OpenFile(b.servers.log(filepath.Base(b.dir)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	b.command = b.servers.command(program, ini)
	b.command.Stdout, b.command.Stderr = log, log
	if err := b.command.Start(); err != nil {
		return err
	}
	b.ended = make(chan struct{})
	go func() {
		_ = b.command.Wait() // the log has the reason
		close(b.ended)
	}()
	route, err := b.Route(b.server.URL("postgres"))
	if err != nil {
		return errors.Join(err, b.Close())
	}
	err = await(ctx, func() (bool, error) {
		select {
		case <-b.ended:
			text, err := os.ReadFile(log.Name())
			return false, errors.Join(fmt.Errorf("pgbouncer ended, saying:\n%s", text), err)
		default:
		}
		conn, err := pgx.Connect(ctx, route)
		if err == nil {
			err = conn.Close(ctx)
		}
		return err == nil, nil
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return nil
}

// Route returns the URL that leads pgx through the pooler to a URL of the server. It switches
// prepared statements off, because the next execution may be on another connection.
func (b *Bouncer) Route(dsn string) (string, error) {
	return reroute(dsn, net.JoinHostPort("127.0.0.1", b.port), "default_query_exec_mode", "exec")
}

// Close ends the pooler.
func (b *Bouncer) Close() error {
	_ = b.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-b.ended:
		return os.RemoveAll(b.dir)
	case <-time.After(readyTimeout):
		return fmt.Errorf("pgbouncer has not ended within %v", readyTimeout)
	}
}
