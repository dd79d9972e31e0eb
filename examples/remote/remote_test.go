//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// TestRemote: the program's audit finds nothing wrong.
func TestRemote(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "remote.db") },
		"postgres": func(t *testing.T) string { return postgrestest.DSN(t) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFrozen: a worker that is frozen until its lease has expired is told that its job is held
// elsewhere, and its outcome is not recorded.
func TestFrozen(t *testing.T) {
	for language, command := range map[string][]string{
		"python": {"python3", "worker.py"},
		"node":   {"node", "worker.mjs"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(command[0]); err != nil && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			testFrozen(t, exec.Command(command[0], command[1:]...))
		})
	}
}

func testFrozen(t *testing.T, cmd *exec.Cmd) {
	d, err := dburl.Open("sqlite:"+filepath.Join(t.TempDir(), "frozen.db"), dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	const token = "a secret of the tests"
	gateway, err := startGateway(d.Queue, token)
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.end()
	job := CountWords.New(Text{Text: "one two", MS: 60_000})
	job.MaxAttempts = 20 // each of the frozen worker's handlers that wait may get it once
	if err := d.Queue.Enqueue(t.Context(), nil, job); err != nil {
		t.Fatal(err)
	}
	lines := start(t, cmd, gateway.url, token)
	freeze(t, d.Queue, cmd, job.ID)
	claimAndSettle(t, d.Queue)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), "void here") {
			break
		}
	}
	if !strings.Contains(lines.Text(), "void here") {
		t.Errorf("the last line of the worker: %q, want that its job is void", lines.Text())
	}
	keeper, _ := queue.As[queue.ResultKeeper](d.Queue)
	r, ok, err := keeper.Result(t.Context(), job.ID)
	if !ok || err != nil || string(r.Output) != `{"by":"test"}` {
		t.Errorf("output: %s, found %v, error %v; want that of the second worker", r.Output, ok, err)
	}
}

// start starts a worker, and returns what it prints.
func start(t *testing.T, cmd *exec.Cmd, url, token string) *bufio.Scanner {
	t.Helper()
	cmd.Env = append(os.Environ(), "GATEWAYS="+url, "TOKEN="+token)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return bufio.NewScanner(out)
}

// freeze stops the worker while it runs the job.
func freeze(t *testing.T, q queue.Queue, cmd *exec.Cmd, id int64) {
	t.Helper()
	inspector, _ := queue.As[queue.Inspector](q)
	for {
		r, _, err := inspector.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == queue.StatusRunning {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// claimAndSettle completes the job as a different worker, once the frozen worker's lease has
// expired.
func claimAndSettle(t *testing.T, q queue.Queue) {
	t.Helper()
	request := queue.ClaimRequest{Queues: []string{CountWords.Queue}, Worker: "test", Limit: 1, Lease: time.Minute}
	for {
		jobs, err := q.Claim(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: jobs[0], Action: queue.Done, Output: []byte(`{"by":"test"}`)})
		if len(lost) > 0 || err != nil {
			t.Fatal(lost, err)
		}
		return
	}
}
