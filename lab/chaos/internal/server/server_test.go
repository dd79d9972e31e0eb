package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// servers are those of all tests, because initdb takes longer than most of them. The first start
// makes them.
var servers *Servers

func TestMain(m *testing.M) {
	code := m.Run()
	if servers != nil {
		err := servers.Close()
		if _, statErr := os.Stat(servers.dir); err != nil || !os.IsNotExist(statErr) {
			fmt.Fprintf(os.Stderr, "Close: %v; Stat of %s afterwards: %v\n", err, servers.dir, statErr)
			code = 1
		}
	}
	os.Exit(code)
}

// start starts a server that has the test's name.
func start(t *testing.T) *Postgres {
	t.Helper()
	if servers == nil {
		var err error
		if servers, err = NewServers(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	p, err := servers.Start(t.Context(), t.Name(), Durable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func connect(t *testing.T, p *Postgres) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// TestKilledServerKeepsWhatWasCommitted kills the server, and then one of its sessions.
func TestKilledServerKeepsWhatWasCommitted(t *testing.T) {
	p := start(t)
	before := connect(t, p)
	if _, err := before.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), p.URL("postgres")); err == nil {
		t.Error("a killed server can be connected to")
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	between := connect(t, p)
	if _, err := between.Exec(t.Context(), "INSERT INTO kept VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if err := p.KillSession(t.Context(), "postgres", 12345); err != nil {
		t.Fatal(err)
	}
	if err := between.Ping(t.Context()); err == nil {
		t.Error("a session outlasts a kill of another")
	}
	var kept int
	if err := connect(t, p).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&kept); err != nil || kept != 2 {
		t.Errorf("got %d rows, %v, want 2", kept, err)
	}
}

// TestPause: a paused server accepts what clients send, and answers when it is resumed.
func TestPause(t *testing.T) {
	p := start(t)
	conn := connect(t, p)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answers: %v", err)
		answered <- err
	case <-time.After(300 * time.Millisecond):
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	p := start(t)
	conn, err := pgx.Connect(t.Context(), p.URL("postgres", "statement_timeout", "1234", "chaos.stop_at", "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, want := range map[string]string{"max_connections": "300", "fsync": "on", "synchronous_commit": "on", "statement_timeout": "1234ms", "chaos.stop_at": "x"} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}

// TestStandby promotes a standby that lacks a row of its primary.
func TestStandby(t *testing.T) {
	p := start(t)
	old := connect(t, p)
	if _, err := old.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	s, err := p.Standby(t.Context(), t.Name()+"-second", "")
	if err != nil {
		t.Fatal(err)
	}
	held, err := s.HoldReceiver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(t.Context(), "INSERT INTO kept VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	url, err := PairRoute(p, s)(p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	received, err := s.Promote(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "INSERT INTO kept VALUES (3)"); err != nil {
		t.Fatal(err)
	}
	gap, err := p.Revive(t.Context(), received)
	if err != nil || gap <= 0 || gap > 1<<20 {
		t.Errorf("the gap: got %d bytes, %v, want those of a row", gap, err)
	}
	for server, want := range map[*Postgres]string{p: "1,2", s: "1,3"} {
		var got string
		if err := connect(t, server).QueryRow(t.Context(), "SELECT string_agg(n::text, ',' ORDER BY n) FROM kept").Scan(&got); err != nil || got != want {
			t.Errorf("got rows %s, %v, want %s", got, err, want)
		}
	}
}

// TestSynchronous holds the standby's receiver, so that nothing is acknowledged.
func TestSynchronous(t *testing.T) {
	p := start(t)
	s, err := p.Standby(t.Context(), t.Name()+"-second", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Synchronous(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := s.HoldReceiver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(held, syscall.SIGCONT) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := connect(t, p).Exec(ctx, "CREATE TABLE kept (n int)"); err == nil {
		t.Error("the server acknowledges a commit that the standby has not received")
	}
}

// TestKeptLogs: a server's log is in the given folder, without the log of an older server of that
// name.
func TestKeptLogs(t *testing.T) {
	p := start(t)
	dir := filepath.Join(t.TempDir(), "logs")
	defer func() { servers.logs = servers.dir }()
	if err := p.servers.KeepLogs(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kept.log")
	if err := os.WriteFile(path, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.servers.Start(t.Context(), "kept", NotDurable); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path)
	if text := string(log); err != nil || strings.Contains(text, "older") || !strings.Contains(text, "ready to accept connections") {
		t.Errorf("log: got %q, %v", text, err)
	}
}
