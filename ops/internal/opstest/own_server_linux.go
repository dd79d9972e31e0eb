package opstest

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/internal/machine"
)

// OwnServer is a PostgreSQL server of one test, which may break it.
type OwnServer struct {
	Dir, bin, dsn string
	account       *syscall.Credential
}

// NewServer makes and starts a server with these variables in its environment. diskMB is the size
// of the disk of its data, 0 for no limit. It needs PostgreSQL's programs on this machine.
func NewServer(t *testing.T, diskMB int, env ...string) *OwnServer {
	t.Helper()
	s := serverFolder(t)
	if diskMB > 0 {
		s.Mount(t, diskMB)
	}
	s.run(t, "initdb", "-D", s.Data(), "-U", "tester", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	s.start(t, env...)
	return s
}

// serverFolder makes the folder of a server that is to be made.
func serverFolder(t *testing.T) *OwnServer {
	t.Helper()
	bin, err := machine.PostgresBin()
	if err != nil {
		SkipOutsideCI(t, err)
	}
	account, err := machine.PostgresAccount()
	if err != nil {
		SkipOutsideCI(t, err)
	}
	dir, err := os.MkdirTemp("", "errand-ops-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &OwnServer{Dir: dir, bin: bin, account: account}
	s.Own(t, dir)
	return s
}

// Data returns the data directory.
func (s *OwnServer) Data() string { return filepath.Join(s.Dir, "data") }

// Own gives a file or a folder to the server's account.
func (s *OwnServer) Own(t *testing.T, path string) {
	t.Helper()
	if s.account == nil {
		return
	}
	if err := os.Chown(path, int(s.account.Uid), int(s.account.Gid)); err != nil {
		t.Fatal(err)
	}
}

// Mount gives the server's data a disk of their own, in memory.
func (s *OwnServer) Mount(t *testing.T, megabytes int) {
	t.Helper()
	if err := os.Mkdir(s.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", s.Data(), "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("size=%dm,mode=0700", megabytes))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		SkipOutsideCI(t, fmt.Errorf("mounting a file system needs root: %w", err))
	} else if err != nil {
		t.Fatal(err)
	}
	const detach = 2 // MNT_DETACH
	t.Cleanup(func() { _ = syscall.Unmount(s.Data(), detach) })
	s.Own(t, s.Data())
}

// Run runs one of PostgreSQL's programs.
func (s *OwnServer) run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), filepath.Join(s.bin, program), args...)
	cmd.Dir, cmd.Env = s.Dir, []string{"LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
}

// start starts the server, which ends with the test, also if this process is killed: then the
// shell's input ends.
func (s *OwnServer) start(t *testing.T, env ...string) {
	t.Helper()
	port := freePort(t)
	s.dsn = "postgres://tester@127.0.0.1:" + port + "/postgres?sslmode=disable"
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	const script = `exec 3<&0; "$@" </dev/null 3<&- & server=$!; read -r _ <&3; kill -QUIT $server; wait $server`
	cmd := osexec.Command("/bin/sh", "-c", script, "sh", "/usr/bin/env")
	cmd.Args = append(cmd.Args, env...)
	cmd.Args = append(cmd.Args, filepath.Join(s.bin, "postgres"), "-D", s.Data(), "-c", "listen_addresses=127.0.0.1", "-c", "port="+port,
		"-c", "unix_socket_directories="+s.Dir, "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Dir, []string{"LC_ALL=C"}, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account, Setsid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = cmd.Wait()
	})
	db := s.Open(t)
	for ctx := t.Context(); db.PingContext(ctx) != nil; time.Sleep(20 * time.Millisecond) {
		if text, _ := os.ReadFile(log.Name()); strings.Contains(string(text), "FATAL:  could not") || ctx.Err() != nil {
			t.Fatalf("the server does not start: %s", text)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// Open opens a pool to the server.
func (s *OwnServer) Open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Migrated opens a queue on the server, whose tables it makes.
func (s *OwnServer) Migrated(t *testing.T) (*sql.DB, *postgres.Backend) {
	t.Helper()
	db := s.Open(t)
	if err := postgres.Migrate(t.Context(), db, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	return db, Backend(t, db, postgres.Options{})
}

// Standby makes a streaming standby of the server, and starts it.
func (s *OwnServer) Standby(t *testing.T) *OwnServer {
	t.Helper()
	other := serverFolder(t)
	other.run(t, "pg_basebackup", "-d", strings.TrimSuffix(s.dsn, "?sslmode=disable"), "-D", other.Data(), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
	other.start(t)
	return other
}

// WrongClock compiles a library for the server to load first, whose clock is wrong by so many
// seconds, and returns the environment that loads it.
func WrongClock(t *testing.T, seconds int) (env string) {
	t.Helper()
	cc, err := osexec.LookPath("cc")
	if err != nil {
		SkipOutsideCI(t, err)
	}
	dir, err := os.MkdirTemp("", "errand-clock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // the server's account loads from it
		t.Fatal(err)
	}
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	text := fmt.Sprintf(`#include <time.h>
#include <sys/time.h>
int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	tv->tv_sec = now.tv_sec + (%d);
	tv->tv_usec = now.tv_nsec / 1000;
	return 0;
}
`, seconds)
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := osexec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	return "LD_PRELOAD=" + library
}

// Fill takes all the space that is left on the server's disk.
func (s *OwnServer) Fill(t *testing.T) {
	t.Helper()
	file, err := os.Create(filepath.Join(s.Data(), "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		switch _, err := file.Write(block); {
		case errors.Is(err, syscall.ENOSPC):
			block = block[:len(block)/2]
		case err != nil:
			t.Fatal(err)
		}
	}
}
