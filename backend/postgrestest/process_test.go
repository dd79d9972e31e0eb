//go:build unix

package postgrestest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// childEnv makes of this test binary a program that starts a server, says where
// it is, and panics at the end of its input.
const childEnv = "ERRAND_POSTGRESTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	if err := forgetSharedServer(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// forgetSharedServer undoes what the program withpostgres has set: these tests are about how a
// server is found and started.
func forgetSharedServer() error {
	before, shared := os.LookupEnv("ERRAND_POSTGRES_BEFORE")
	if !shared {
		return nil
	}
	return errors.Join(os.Unsetenv("DATABASE_URL"), os.Unsetenv("TMPDIR"), os.Setenv("ERRAND_POSTGRES", before))
}

func child() {
	s, err := Start(context.Background(), Options{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n%s\n", s.DSN, s.Description)
	_, err = io.Copy(io.Discard, os.Stdin)
	panic(fmt.Sprint("end of input: ", err))
}

// TestServerEndsWithItsProcess is what keeps machines clean.
func TestServerEndsWithItsProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	for name, end := range map[string]func(pid int, stdin io.Closer) error{
		"kill -9": func(pid int, _ io.Closer) error { return syscall.Kill(pid, syscall.SIGKILL) },
		"ctrl-C":  func(pid int, _ io.Closer) error { return syscall.Kill(-pid, syscall.SIGINT) },
		"panic":   func(_ int, stdin io.Closer) error { return stdin.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			dsn, description := runChild(t, cmd)
			t.Log(description)
			pid := postmaster(t, description)
			if traces(t, description, pid) == "" {
				t.Fatal("the living server leaves no traces to look for")
			}
			if err := end(cmd.Process.Pid, stdin); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the child succeeded")
			}
			wantGone(t, dsn, description, pid)
		})
	}
}

// runChild starts cmd and returns what it says.
func runChild(t *testing.T, cmd *exec.Cmd) (dsn, description string) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	dsn = lines.Text()
	lines.Scan()
	if description = lines.Text(); description == "" {
		t.Fatalf("the child started no server: %v", cmd.Wait())
	}
	return dsn, description
}

// wantGone waits for the database to be unreachable and the server to be gone. A
// server that was given to the child stays, and the database goes when the next
// process comes by.
func wantGone(t *testing.T, dsn, description string, pid int) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the database to go", func() bool {
		if strings.Contains(description, "DATABASE_URL") {
			s, err := Start(t.Context(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
		}
		return ping(t.Context(), u) != nil
	})
	if !strings.Contains(description, "DATABASE_URL") {
		eventually(t, "all traces of the server to go", func() bool { return traces(t, description, pid) == "" })
	}
}

// postmaster returns the process id of a local server, or 0.
func postmaster(t *testing.T, description string) int {
	t.Helper()
	_, dir, local := strings.Cut(description, "data in ")
	if !local {
		return 0
	}
	file, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(file), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
