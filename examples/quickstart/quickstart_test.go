package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/examples/internal/place"
	"github.com/errandhq/errand/internal/extent"
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

// stage is where a test runs the program.
type stage struct {
	env  []string
	line string                  // what the program says first; in parentheses what is to be gone at the end
	left func(what string) error // nil if it is gone; else it removes what it finds
}

// stages are those of each test.
var stages = map[string]func(*testing.T) stage{"sqlite": onSQLite, "postgres": onPostgres}

// onSQLite is what a newcomer has. What a killed program leaves behind goes with the directory.
func onSQLite(t *testing.T) stage {
	return stage{
		env:  []string{"DATABASE_URL=", "TMPDIR=" + t.TempDir()},
		line: `^SQLite file (\S+)/example\.db, which is removed at the end$`,
		left: func(dir string) error {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("stat %s: %w, want %w", dir, err, os.ErrNotExist)
			}
			return nil
		},
	}
}

func onPostgres(t *testing.T) stage {
	db := postgrestest.Empty(t)
	return stage{
		env:  []string{"DATABASE_URL=" + postgrestest.EmptyDSN(t)},
		line: `^PostgreSQL database (errand_example_\w+) at \S+, which is dropped at the end$`,
		left: func(name string) error {
			var isLeft bool
			err := db.QueryRow("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&isLeft)
			if err != nil || !isLeft {
				return err
			}
			_, err = db.Exec("DROP DATABASE " + name + " WITH (FORCE)")
			return errors.Join(fmt.Errorf("database %s is left", name), err)
		},
	}
}

// onEach runs the program on each stage, for test to watch until it has ended. Then nothing of the
// database is left, unless the program was killed.
func onEach(t *testing.T, test func(*program)) {
	for name, open := range stages {
		t.Run(name, func(t *testing.T) {
			if t.Name() == "TestQuickstart/postgres" && !extent.Whole() {
				t.Skip("ERRAND_TESTS=whole runs it: a whole day repeats on Postgres what sqlite proves")
			}
			s := open(t)
			p := start(t, s.env...)
			data := p.until(s.line)[1]
			test(p)
			if err := s.left(data); err != nil && p.cmd.ProcessState.Exited() {
				t.Error(err)
			}
		})
	}
}

func start(t *testing.T, env ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{T: t, cmd: exec.Command(self)}
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
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
	onEach(t, func(p *program) {
		if status := p.finish(); status != 0 {
			p.Fatalf("exit status %d, want 0:\n%s%s", status, &p.stdout, &p.stderr)
		}
		for _, want := range []string{
			`worker-[12] was killed while it held [1-9]\d* webhooks\n`,
			`receiver is down\n`,
			`  jobs lost +0  want 0 +ok\n`,
			`\naudit passed: nothing was lost in \d+\.\ds\n$`,
		} {
			if !regexp.MustCompile(want).MatchString(p.stdout.String()) {
				p.Errorf("no match for %q in:\n%s", want, &p.stdout)
			}
		}
	})
}

func TestCtrlC(t *testing.T) {
	onEach(t, func(p *program) {
		p.until(`orders [1-9]`)
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			p.Fatal(err)
		}
		if status := p.finish(); status != 1 {
			p.Errorf("exit status %d, want 1", status)
		}
		if got, want := p.stderr.String(), "quickstart: interrupt signal received\n"; !strings.HasSuffix(got, want) {
			p.Errorf("standard error is %q, want %q", got, want)
		}
	})
}

// A worker that ends by itself ends the day.
func TestWorkerFails(t *testing.T) {
	onEach(t, func(p *program) {
		pid, err := strconv.Atoi(p.until(`worker-2 is process (\d+)`)[1])
		if err != nil {
			p.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			p.Fatal(err)
		}
		if status := p.finish(); status != 1 {
			p.Errorf("exit status %d, want 1", status)
		}
		if got, want := p.stderr.String(), "worker-2 has ended: signal: terminated"; !strings.Contains(got, want) {
			p.Errorf("standard error is %q, want %q in it", got, want)
		}
	})
}

// Even kill -9 leaves no worker running.
func TestKilled(t *testing.T) {
	onEach(t, func(p *program) {
		p.until(`orders [1-9]`)
		if err := p.cmd.Process.Kill(); err != nil {
			p.Fatal(err)
		}
		if status := p.finish(); status != -1 {
			p.Errorf("exit status %d, want -1", status)
		}
	})
}

// A file that DATABASE_URL names is used where it is, and kept. It is good for one day.
func TestFileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my shop.db")
	t.Setenv("DATABASE_URL", "sqlite:"+path)
	for _, want := range []string{"", "table orders already exists"} {
		d, err := place.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shop, err := openShop(t.Context(), d.URL)
		switch {
		case want == "" && err == nil:
			shop.close()
		case want == "" || err == nil || !strings.Contains(err.Error(), want):
			t.Fatalf("got %v, want %q", err, want)
		}
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// A URL that will not do is an error, not another database.
func TestOtherURLs(t *testing.T) {
	for url, want := range map[string]string{
		"memory:":                 "need a database",
		"mysql://u:secret@h/shop": `the scheme "mysql" is not known`,
	} {
		t.Setenv("DATABASE_URL", url)
		if err := run(t.Context(), &progress{out: io.Discard}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
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

// The first run on a new machine builds and links what the program imports: few modules of others,
// no client of Docker among them.
func TestFewModules(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
	modules = slices.DeleteFunc(modules, func(path string) bool { return strings.HasPrefix(path, "github.com/errandhq/errand") })
	if len(modules) > 15 {
		t.Errorf("%d modules of others are linked, want 15 at most: %s", len(modules), modules)
	}
}
