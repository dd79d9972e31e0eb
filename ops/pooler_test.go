//go:build unix

package ops_test

import (
	"database/sql"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	command "os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/pgbin"
	"github.com/errandhq/errand/ops"
)

const bouncerINI = `[databases]
* = host=%s port=%s user=%s password=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = %s
`

// TestPooler: Doctor finds a PgBouncer in transaction mode, through which no notification arrives,
// and nothing in session mode and without one.
func TestPooler(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{"transaction": {"listen", "pooler"}, "session": nil, "": nil} {
		t.Run("mode "+mode, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			if mode != "" {
				dsn = bounce(t, dsn, mode)
			}
			db, err := sql.Open("pgx", dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			eventually(t, "PgBouncer answers", func() bool { return db.PingContext(t.Context()) == nil })
			found := examine(t, backend(t, db, postgres.Options{Listen: pgxlisten.Listen}), ops.Options{})
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
				t.Errorf("found %v, want %v", got, want)
			}
		})
	}
}

// bounce starts a PgBouncer in front of the server of dsn, and returns the URL through it.
func bounce(t *testing.T, dsn, mode string) string {
	t.Helper()
	program, err := command.LookPath("pgbouncer")
	if err != nil {
		program, err = command.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		t.Skip("there is no pgbouncer on this machine")
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir, err := os.MkdirTemp("", "errand-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	password, _ := u.User.Password()
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(bouncerINI, u.Hostname(), u.Port(), u.User.Username(), password, port, mode)
	if err := os.WriteFile(ini, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	account, err := pgbin.Account()
	if err != nil {
		t.Fatal(err)
	}
	if account != nil { // PgBouncer does not run as root
		for _, path := range []string{dir, ini} {
			if err := os.Chown(path, int(account.Uid), int(account.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := command.Command(program, ini)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	u.Host = net.JoinHostPort("127.0.0.1", port)
	q := u.Query()
	q.Set("default_query_exec_mode", "exec") // PgBouncer before 1.21 knows no prepared statements
	u.RawQuery = q.Encode()
	return u.String()
}
