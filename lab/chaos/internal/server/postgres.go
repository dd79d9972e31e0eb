package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Durable are the settings of a server that a scenario may crash. All else is as in a fresh
// installation: fsync, synchronous_commit and full_page_writes are on.
var Durable = map[string]string{"max_connections": "300"}

// NotDurable are the settings of a server that no fault strikes.
var NotDurable = map[string]string{"max_connections": "300", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

// Postgres is a server on a port of its own, which it keeps after a restart. Its methods must be
// called by one goroutine.
type Postgres struct {
	Version  string // for example 15.18
	servers  *Servers
	data     string
	mounted  bool // data is a file system of its own
	port     string
	settings map[string]string
	log      string
	command  *exec.Cmd
	ended    chan struct{} // closed when the process of command has ended
}

// readyTimeout bounds a start with recovery, on a busy machine.
const readyTimeout = 2 * time.Minute

// Start makes a server of that name and starts it. It returns when a client can connect.
func (s *Servers) Start(ctx context.Context, name string, settings map[string]string) (*Postgres, error) {
	p := &Postgres{servers: s, data: filepath.Join(s.dir, name), log: s.log(name), settings: settings}
	s.register(p)
	return p, p.begin(ctx)
}

// begin makes the server's data and starts it for the first time.
func (p *Postgres) begin(ctx context.Context) (err error) {
	if err := p.servers.run(ctx, "cp", "-a", p.servers.template()+"/.", p.data); err != nil {
		return err
	}
	if p.port, err = p.servers.port(); err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	return p.runStatement(ctx, "SHOW server_version", func(rows pgx.Rows) error {
		err := rows.Scan(&p.Version)
		p.Version, _, _ = strings.Cut(p.Version, " ") // without what a package adds
		return err
	})
}

// Start starts the server again after Kill or Stop. It returns when a client can connect.
func (p *Postgres) Start(ctx context.Context) error {
	args := []string{"-D", p.data, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + p.port, "-c", "unix_socket_directories="}
	for name, value := range p.settings {
		args = append(args, "-c", name+"="+value)
	}
	p.command = p.servers.command(filepath.Join(p.servers.bin, "postgres"), args...)
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the server has its own
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		return err
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // the log has the reason
		close(ended)
	}(p.command, p.ended)
	return p.Ready(ctx)
}

// Ready waits until a client can connect to the server.
func (p *Postgres) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.ended:
			return fmt.Errorf("the server ended, saying:\n%s", p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("the server cannot be connected to: %w; it said:\n%s", err, p.lastWords())
		}
	}
}

// Address returns the address that the server listens on.
func (p *Postgres) Address() string { return net.JoinHostPort("127.0.0.1", p.port) }

// URL returns the URL of a database of the server. It stays the same after a restart. Parameters
// are server settings: name, value, name, value.
func (p *Postgres) URL(database string, parameters ...string) string {
	query := url.Values{"sslmode": {"disable"}}
	for i := 0; i+1 < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("errand", p.servers.password),
		Host:     p.Address(),
		Path:     "/" + database,
		RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20"), // the drivers do not read + as a space
	}
	return u.String()
}

// reroute returns a URL with another host and one more parameter.
func reroute(dsn, host, name, value string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Host = host
	u.RawQuery += "&" + url.Values{name: {value}}.Encode()
	return u.String(), nil
}

// Create creates an empty database.
func (p *Postgres) Create(ctx context.Context, database string) error {
	return p.runStatement(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize(), nil)
}

// runStatement runs a statement on its own connection, and scans its rows.
func (p *Postgres) runStatement(ctx context.Context, statement string, scan func(pgx.Rows) error) error {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Stop shuts the server down gracefully, and waits for its end.
func (p *Postgres) Stop() error { return p.end(syscall.SIGINT) }

// Close ends the server at once, in whatever state, and removes its data.
func (p *Postgres) Close() error {
	err := p.end(syscall.SIGQUIT)
	if p.mounted {
		p.mounted = false
		err = errors.Join(err, unmount(p.data))
	}
	return errors.Join(err, os.RemoveAll(p.data))
}

func (p *Postgres) end(signal syscall.Signal) error {
	if p.command == nil || p.command.Process == nil {
		return nil
	}
	_ = p.command.Process.Signal(signal) // it may have ended
	select {
	case <-p.ended:
		return nil
	case <-time.After(readyTimeout):
		return fmt.Errorf("the server has not ended within %v", readyTimeout)
	}
}

// lastWords returns the end of the server's log.
func (p *Postgres) lastWords() string {
	const most = 4 << 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}
