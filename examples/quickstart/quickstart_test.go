package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// With this variable set the test binary is the program, so that what is tested
// are real processes.
const asProgram = "ERRAND_QUICKSTART"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a run of the quickstart.
type program struct {
	*testing.T
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stdout bytes.Buffer // the lines read so far
	stderr bytes.Buffer
}

func start(t *testing.T) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{T: t, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// until reads lines until one matches, and returns the match.
func (p *program) until(pattern string) []string {
	p.Helper()
	re := regexp.MustCompile(pattern)
	for p.lines.Scan() {
		p.stdout.WriteString(p.lines.Text() + "\n")
		if m := re.FindStringSubmatch(p.lines.Text()); m != nil {
			return m
		}
	}
	p.finish()
	p.Fatalf("no line matches %q:\n%s%s", pattern, &p.stdout, &p.stderr)
	return nil
}

// finish returns the exit status, -1 for a death by signal. Because the workers
// share standard error, it returns only when they have ended too.
func (p *program) finish() int {
	p.Helper()
	for p.lines.Scan() {
		p.stdout.WriteString(p.lines.Text() + "\n")
	}
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case err := <-done:
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			p.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		p.Fatalf("something still runs:\n%s%s", &p.stdout, &p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// The whole of it, as the README's first command runs it.
func TestQuickstart(t *testing.T) {
	p := start(t)
	data := p.until(`^PostgreSQL \d+.*?(?: data in (\S+))?$`)[1]
	if status := p.finish(); status != 0 {
		t.Fatalf("exit status %d, want 0:\n%s%s", status, &p.stdout, &p.stderr)
	}
	for _, want := range []string{
		`worker-[12] was killed while it held [1-9]\d* webhooks\n`,
		`receiver is down\n`,
		`  jobs lost +0  want 0 +ok\n`,
		`\naudit passed: nothing was lost in \d+\.\ds\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(p.stdout.String()) {
			t.Errorf("no match for %q in:\n%s", want, &p.stdout)
		}
	}
	wantGone(t, data)
}

func TestCtrlC(t *testing.T) {
	p := start(t)
	data := p.until(`^PostgreSQL \d+.*?(?: data in (\S+))?$`)[1]
	p.until(`orders [1-9]`)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := p.finish(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if got, want := p.stderr.String(), "quickstart: interrupt signal received\n"; !strings.HasSuffix(got, want) {
		t.Errorf("standard error is %q, want %q", got, want)
	}
	wantGone(t, data)
}

// A worker that ends by itself ends the day.
func TestWorkerFails(t *testing.T) {
	p := start(t)
	data := p.until(`^PostgreSQL \d+.*?(?: data in (\S+))?$`)[1]
	pid, err := strconv.Atoi(p.until(`worker-2 is process (\d+)`)[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.finish(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if got, want := p.stderr.String(), "worker-2 has ended: signal: terminated"; !strings.Contains(got, want) {
		t.Errorf("standard error is %q, want %q in it", got, want)
	}
	wantGone(t, data)
}

// Even kill -9 leaves no worker running, nor a server.
func TestKilled(t *testing.T) {
	p := start(t)
	p.until(`orders [1-9]`)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if status := p.finish(); status != -1 {
		t.Errorf("exit status %d, want -1", status)
	}
}

// wantGone checks that a server's data directory, if it had one, has been removed.
func wantGone(t *testing.T, dir string) {
	t.Helper()
	if dir == "" {
		return
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat %s: %v, want %v", dir, err, os.ErrNotExist)
	}
}

// On a terminal one line changes, and events push it down.
func TestProgressOnTerminal(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out, terminal: true}
	p.status("one")
	p.status("two")
	p.event("three %d", 3)
	p.status("four")
	p.end()
	if got, want := out.String(), eraseLine+"one"+eraseLine+"two"+eraseLine+"three 3\n"+eraseLine+"four\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Elsewhere there is at most one line a second.
func TestProgressInFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := newProgress(w)
	p.status("one")
	p.status("two")
	p.event("three")
	p.end()
	w.Close()
	got, err := io.ReadAll(r)
	if want := "one\nthree\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
