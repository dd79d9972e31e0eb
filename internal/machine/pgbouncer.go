//go:build unix

package machine

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const ini = `[databases]
* = host=%s port=%s user=%s password=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = %d
`

// StartPgBouncer starts a PgBouncer in front of the server of dsn, and returns the URL through it.
// mode is transaction or session; other settings may follow, each on a line of its own. It skips
// the test where there is no PgBouncer, but not in CI.
func StartPgBouncer(t testing.TB, dsn, mode string) string {
	t.Helper()
	return StartPgBouncerSize(t, dsn, mode, 20)
}

// StartPgBouncerSize is [StartPgBouncer] for at most size connections to the server.
func StartPgBouncerSize(t testing.TB, dsn, mode string, size int) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no pgbouncer on this machine")
	}
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	password, _ := u.User.Password()
	run(t, program, fmt.Sprintf(ini, u.Hostname(), u.Port(), u.User.Username(), password, port, mode, size))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("PgBouncer does not answer: ", err)
		}
	}
	u.Host = address
	q := u.Query()
	q.Set("default_query_exec_mode", "exec") // PgBouncer before 1.21 knows no prepared statements
	u.RawQuery = q.Encode()
	return u.String()
}

// run runs PgBouncer with that configuration until the end of the test.
func run(t testing.TB, program, configuration string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "errand-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	account, err := PostgresAccount()
	if err != nil {
		t.Fatal(err)
	}
	if account != nil { // PgBouncer does not run as root
		for _, path := range []string{dir, path} {
			if err := os.Chown(path, int(account.Uid), int(account.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command(program, path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}
