package main

import (
	"errors"
	"flag"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/internal/extent"
)

// TestMain lets more tests run at once than there are processors: nearly all of their time they
// wait. It does not parse the flags, because as the program errand it has others.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		log.Fatal(err)
	}
	testscript.Main(m, map[string]func(){"errand": func() {
		start(time.Minute) // on a busy machine completion may need a second to connect
	}})
}

// skipPgBouncer skips what is long and runs over PgBouncer as over a direct connection, unless
// ERRAND_TESTS=whole.
func skipPgBouncer(t *testing.T, backend string) {
	t.Helper()
	if backend == "pgbouncer" && !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: repeats over PgBouncer what postgres proves")
	}
}

// TestScripts runs the scripts in testdata on each backend: they answer alike. go test -update
// writes what they answer into the scripts.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, b := range clitest.Backends {
		t.Run(b.Name, func(t *testing.T) {
			skipPgBouncer(t, b.Name)
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir:                 "testdata",
				RequireExplicitExec: true,
				UpdateScripts:       os.Getenv("UPDATE") != "" && b.Name == "sqlite",
				Setup: func(env *testscript.Env) error {
					env.Setenv("DATABASE_URL", b.URL(env.T().(testing.TB), env.WorkDir))
					env.Setenv("EVIL", evil)
					env.Setenv("BYTES", "k\xff\x1b[31m\xc2")
					return nil
				},
				Condition: func(name string) (bool, error) {
					return name == b.Name || name == "postgres" && b.Name == "pgbouncer", nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits,
					"plain": writePlain,
					"seed":  seed,

					"service": service,
					"only":    only,

					"harmless": harmless,
				},
			})
		})
	}
}

// exits runs a program, and checks its exit code: exits CODE PROGRAM ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// writePlain writes a stream of the last command to the file plain, with everything replaced that
// differs between runs: plain stdout|stderr
func writePlain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: plain stdout|stderr")
	}
	text := ts.ReadFile(args[0])
	for _, r := range []struct{ pattern, with string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`"([a-z_]+_ns)": ?\d+`, `"$1": N`},
		{`\b\d+(\.\d+)?m?s\b *`, "AGE "},
		{`(SQLite file|PostgreSQL database) .*`, "DATABASE"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	ts.Check(os.WriteFile(ts.MkAbs("plain"), []byte(text), 0o600))
}

// harmless runs a program, and checks that it prints nothing on which a terminal acts: harmless
// PROGRAM ARG...
func harmless(ts *testscript.TestScript, _ bool, args []string) {
	_ = ts.Exec(args[0], args[1:]...)
	for _, stream := range []string{"stdout", "stderr"} {
		text := ts.ReadFile(stream)
		for i, r := range text {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r)) {
				ts.Fatalf("%s has %U: %q", stream, r, text[max(i-40, 0):min(i+40, len(text))])
			}
		}
		if !utf8.ValidString(text) {
			ts.Fatalf("%s is not UTF-8: %q", stream, text)
		}
		if strings.Contains(text, "\nnext") {
			ts.Fatalf("%s has a line of the stored text: %q", stream, text)
		}
	}
}
