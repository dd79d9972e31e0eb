package main

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
)

// TestNoConnection: the error says what the server says, and what to do, and has no password.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	for _, c := range []struct {
		change func(u *url.URL)
		says   string
	}{
		{func(u *url.URL) { u.Path = "/none" }, `: the server has no database of this name (FATAL: database "none" does not exist (SQLSTATE 3D000)); look at the name in the URL`},
		{func(u *url.URL) { u.User = url.UserPassword("nobody", "secret") }, ": the server refuses this user or its password (FATAL: "},
		{func(u *url.URL) { u.Host = "nowhere.invalid" }, `: the host "nowhere.invalid" is not known; look at the host in the URL`},
		{func(u *url.URL) { u.RawQuery = "sslmode=require" }, "tls error: server refused TLS connection"},
	} {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		c.change(u)
		r := runErrand(t, u.String(), "stats")
		if r.code != cli.ExitFailed || !strings.HasPrefix(r.err, "errand: no connection to the PostgreSQL database ") || !strings.Contains(r.err, c.says) ||
			strings.Count(r.err, "\n") != 1 || strings.Contains(r.err, "secret") {
			t.Errorf("exit code %d, %q, want %d, %s", r.code, r.err, cli.ExitFailed, c.says)
		}
	}
}

// TestPaste: the commands that explain advises name the database of --url, without its password,
// and work as they are.
func TestPaste(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no POSIX shell")
	}
	for _, b := range clitest.Backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			text := b.URL(t, t.TempDir())
			if err := seedLife(t.Context(), clitest.WithJob(t, text)); err != nil {
				t.Fatal(err)
			}
			secret := ""
			if u, err := url.Parse(text); err == nil {
				secret, _ = u.User.Password()
			}
			cmd := exec.Command("errand", "explain", "--queue", "slow")
			cmd.Env = append(os.Environ(), "DATABASE_URL="+text)
			if out, _ := cmd.Output(); !strings.Contains(string(out), "errand jobs ") {
				t.Errorf("with the URL in the environment: %s", out)
			}
			r := runErrand(t, text, "explain", "--queue", "slow")
			if !regexp.MustCompile(`errand --url \S+ jobs reschedule \d+ --now`).MatchString(r.out) {
				t.Errorf("no command with the URL: %s", r.out)
			}
			if secret != "" && (strings.Contains(r.out, secret) || !strings.Contains(r.err, "set PGPASSWORD")) {
				t.Errorf("%s%s", r.out, r.err)
			}
			command := regexp.MustCompile(`errand --url .*`).FindString(r.out)
			cmd = exec.Command("sh", "-c", command)
			cmd.Env = append(os.Environ(), "PGPASSWORD="+secret)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "1 of 1 jobs rescheduled") {
				t.Errorf("%s: %v, %s", command, err, out)
			}
		})
	}
}

// TestReadOnlyFile: where SQLite may not write beside the file, the error says what to do.
func TestReadOnlyFile(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("folders have no such rights, or the user has all")
	}
	dir := t.TempDir()
	database := clitest.Backends[0].URL(t, dir)
	if err := clitest.OpenWithJobs(t, database, 1).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	var out, said bytes.Buffer
	a := &cli.App{Out: &out, Err: &said, Getenv: clitest.Env(database)}
	if code := run(t.Context(), a, []string{"stats"}); code != cli.ExitFailed || !strings.Contains(said.String(), "Run this as their owner, or look at a copy") {
		t.Errorf("exit code %d: %s", code, &said)
	}
}
