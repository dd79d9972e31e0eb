package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/internal/machine"
	"github.com/errandhq/errand/queue"
)

// result is how a command has ended.
type result struct {
	code     int
	out, err string
	took     time.Duration
}

// runErrand runs a command to its end.
func runErrand(t *testing.T, url string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "errand", append(args, "--url", url)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	began := time.Now()
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), problems.String(), time.Since(began)}
}

// hold begins a transaction and runs a statement in it. It returns the session's process ID.
func hold(t *testing.T, db *sql.DB, statement string) (pid int) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	return pid
}

// waiting returns how many sessions wait for a lock.
func waiting(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	const query = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLockedTable: each command that needs the table of jobs ends soon after --timeout while a
// session has locked the table, and names that session. Nothing of it stays on the server. explain
// names the session as the reason if its time is enough for that.
func TestLockedTable(t *testing.T) {
	commands := []string{
		"jobs list", "jobs list --created-since 1h", "jobs show 1", "jobs redrive 1", "jobs cancel 1", "jobs delete 1", "jobs reschedule 1 --now",
		"jobs cancel --queue default --yes --max 10", "jobs delete --status completed --kind kind --yes --max 10",
		"queues list", "queues show default", "queues pause default", "queues limit default --running 1", "kinds list", "kinds pause kind",
		"stats", "workers", "explain 1", "explain --queue default", "explain --kind kind", "explain --key key", "enqueue kind", "tail", "web",
	}
	for _, by := range []string{"postgres", "pgbouncer"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			direct := postgrestest.EmptyDSN(t)
			url, commands := direct, commands
			if by == "pgbouncer" {
				url, commands = machine.StartPgBouncer(t, direct, "transaction"), []string{"jobs list", "jobs cancel 1", "queues pause default", "explain 1"}
			}
			d := clitest.WithJob(t, direct)
			pid := hold(t, d.DB, "LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE")
			const timeout = 3 * time.Second // on a busy machine one is not enough to connect and look for the lock
			t.Run("commands", func(t *testing.T) {
				for _, command := range commands {
					t.Run(command, func(t *testing.T) {
						t.Parallel()
						r := runErrand(t, url, append(strings.Fields(command), "--timeout", timeout.String())...)
						want := fmt.Sprintf("errand: waited %v for a lock on errand.jobs, which session %d (holder) holds. Look further with: errand --url ", timeout, pid)
						explained := strings.HasPrefix(command, "explain") && r.code == cli.ExitFound && strings.Contains(r.out, fmt.Sprint("session ", pid))
						if !explained && (r.code != cli.ExitRefused || !strings.Contains(r.err, want)) {
							t.Errorf("exit code %d, %s; want %d, %q", r.code, r.err, cli.ExitRefused, want)
						}
						if r.took > timeout+4*time.Second { // processes start slowly on a busy machine
							t.Errorf("it took %v", r.took)
						}
					})
				}
			})
			if r := runErrand(t, url, "explain", "1", "--timeout", "10s"); r.code != cli.ExitFound || !strings.Contains(r.out, fmt.Sprint("session ", pid)) {
				t.Errorf("explain with time: exit code %d after %v:\n%s%s", r.code, r.took, r.out, r.err)
			}
			if n := waiting(t, d.DB); n > 0 {
				t.Errorf("%d sessions still wait for the lock", n)
			}
			if r := runErrand(t, url, "doctor"); r.code != cli.ExitFound || !strings.Contains(r.out, fmt.Sprint("locked, or a session waits to lock it, so claims wait: session ", pid)) || r.took > 6*time.Second {
				t.Errorf("doctor: exit code %d after %v:\n%s", r.code, r.took, r.out)
			}
		})
	}
}

// TestLockedRow: an action says which session has locked the row of its job. Where it then sends
// to, that session is named again.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyDSN(t)
	d := clitest.WithJob(t, url)
	for _, name := range []string{"bulk", "bulk", queue.DefaultQueue, queue.DefaultQueue} {
		if err := d.Queue.Enqueue(t.Context(), nil, &queue.Job{Queue: name, Kind: "kind"}); err != nil {
			t.Fatal(err)
		}
	}
	if r := runErrand(t, url, "jobs", "cancel", "4"); r.code != cli.ExitDone {
		t.Fatalf("exit code %d, %s", r.code, r.err)
	}
	pid := hold(t, d.DB, "SELECT FROM errand.jobs FOR UPDATE")
	end := fmt.Sprintf("End its transaction, or: SELECT pg_terminate_backend(%d)\n", pid)
	t.Run("actions", func(t *testing.T) {
		for args, says := range map[string]string{
			"cancel 1":                          "Look further with: errand --url ",
			"delete 4":                          end, // explain looks for no locks of a job that has ended
			"cancel --queue bulk --yes --max 2": end,
		} {
			t.Run(args, func(t *testing.T) {
				t.Parallel()
				r := runErrand(t, url, append(strings.Fields("jobs "+args), "--timeout", "3s")...)
				want := fmt.Sprintf("waited 3s for a row, which session %d (holder) holds. %s", pid, says)
				if r.code != cli.ExitRefused || !strings.Contains(r.err, want) {
					t.Errorf("exit code %d, %s; want %d, %q", r.code, r.err, cli.ExitRefused, want)
				}
				const password = "set PGPASSWORD, or ERRAND_DATABASE_URL instead of --url\n"
				if says != end && (!strings.Contains(r.err, " explain 1\n") || !strings.HasSuffix(r.err, password)) {
					t.Errorf("it does not send to explain, or does not say where its password comes from: %s", r.err)
				}
			})
		}
	})
	t.Run("one row", func(t *testing.T) { // the second waits for a lock that PostgreSQL calls one on a tuple
		for range 2 {
			t.Run("cancel 5", func(t *testing.T) {
				t.Parallel()
				r := runErrand(t, url, "jobs", "cancel", "5", "--timeout", "3s")
				if r.code != cli.ExitRefused || !strings.Contains(r.err, "waited 3s for a row") || !strings.Contains(r.err, fmt.Sprintf("session %d (holder)", pid)) {
					t.Errorf("exit code %d, %s", r.code, r.err)
				}
			})
		}
	})
	if r := runErrand(t, url, "explain", "1"); r.code != cli.ExitFound || !strings.Contains(r.out, fmt.Sprintf("session %d (application holder", pid)) {
		t.Errorf("explain: exit code %d, %s", r.code, r.out)
	}
}

// TestInterruptedWait: a command that is interrupted while it waits has the server end its
// statement before it ends itself.
func TestInterruptedWait(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no signals")
	}
	t.Parallel()
	url := postgrestest.EmptyDSN(t)
	d := clitest.WithJob(t, url)
	for _, command := range []string{"jobs list", "jobs cancel 1", "queues pause default", "explain 1", "doctor"} {
		t.Run(command, func(t *testing.T) {
			table := "jobs"
			if command == "doctor" { // it reads no jobs if their table has been locked for a second
				table = "workers"
			}
			hold(t, d.DB, "LOCK TABLE errand."+table+" IN ACCESS EXCLUSIVE MODE")
			var problems bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "errand", append(strings.Fields(command), "--timeout", "1m", "--url", url)...)
			cmd.Stderr = &problems
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			for waiting(t, d.DB) == 0 {
				select {
				case err := <-ended:
					t.Fatalf("it has not waited: %v, %s", err, &problems)
				case <-time.After(10 * time.Millisecond):
				}
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := <-ended; err == nil {
				t.Error("it has not failed")
			}
			if n := waiting(t, d.DB); n > 0 {
				t.Errorf("%d statements still wait", n)
			}
			if code, took := cmd.ProcessState.ExitCode(), time.Since(began); code != cli.ExitInterrupted || took > 4*time.Second {
				t.Errorf("exit code %d after %v, want %d: %s", code, took, cli.ExitInterrupted, &problems)
			}
		})
	}
}

// TestLockedFile: an action on a SQLite file whose write lock another handle has ends after
// --timeout, and a command that reads does not wait.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	url := clitest.Backends[0].URL(t, t.TempDir())
	d := clitest.WithJob(t, url)
	conn, err := d.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"jobs cancel 1", "queues pause default", "queues limit default --running 1", "enqueue kind"} {
		r := runErrand(t, url, append(strings.Fields(command), "--timeout", "1s")...)
		if r.code != cli.ExitRefused || !strings.Contains(r.err, "waited 1s for the SQLite file") || r.took > 4*time.Second {
			t.Errorf("%s: exit code %d after %v, %s", command, r.code, r.took, r.err)
		}
	}
	if r := runErrand(t, url, "jobs", "list"); r.code != cli.ExitDone {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
}

// TestNoServer: where no server answers, a command says so in one line, and shows nothing else.
func TestNoServer(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"doctor", "jobs list", "queues list", "stats", "workers", "explain 1", "jobs cancel 1", "tail", "migrate up"} {
		r := runErrand(t, "postgres://shop:secret@127.0.0.1:1/shop?sslmode=disable", strings.Fields(command)...)
		const want = "errand: no connection to the PostgreSQL database shop at 127.0.0.1:1: no server listens at 127.0.0.1:1; look whether the server runs, and whether the URL and the network are right\n"
		if r.code != cli.ExitFailed || r.err != want || r.out != "" {
			t.Errorf("%s: exit code %d, %q, %q; want %d, %q", command, r.code, r.out, r.err, cli.ExitFailed, want)
		}
	}
}

// TestLockedBehind: a command that waits behind a session which waits itself names both, and of the
// two the one that has to end.
func TestLockedBehind(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyDSN(t)
	d := clitest.WithJob(t, url)
	first := hold(t, d.DB, "SELECT FROM errand.jobs")
	tx, err := d.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var second int
	if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&second); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = tx.ExecContext(ctx, "LOCK TABLE errand.jobs")
	}()
	defer func() { cancel(); <-done }()
	for waiting(t, d.DB) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	want := fmt.Sprintf("waited 3s for a lock on errand.jobs behind session %d (holder), which waits for session %d (holder). ", second, first)
	if r := runErrand(t, url, "jobs", "list", "--timeout", "3s"); r.code != cli.ExitRefused || !strings.Contains(r.err, want) {
		t.Errorf("exit code %d, %s; want %s", r.code, r.err, want)
	}
}

// TestLockedMigrations: a command that waits for a migration to end says whose lock that is, which
// is no row's.
func TestLockedMigrations(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyDSN(t)
	d := clitest.WithJob(t, url)
	text, err := postgres.DropSQL(postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lock, _, _ := strings.Cut(text, ";")
	pid := hold(t, d.DB, lock)
	want := fmt.Sprintf("waited 3s for an advisory lock, which session %d (holder) holds. ", pid)
	if r := runErrand(t, url, "migrate", "repair", "--timeout", "3s"); r.code != cli.ExitRefused || !strings.Contains(r.err, want) {
		t.Errorf("exit code %d, %s; want %s", r.code, r.err, want)
	}
}
