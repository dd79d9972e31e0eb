package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/errandhq/errand/lab/chaos/internal/report"
	"github.com/errandhq/errand/lab/chaos/internal/runner"
)

func TestParse(t *testing.T) {
	f, err := parse([]string{"-run", "1,sigterm", "-short", "-seed", "7", "-against", "river", "-json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o := f.options
	if len(o.Scenarios) != 2 || o.Scenarios[0].Name != "sigkill" || o.Scenarios[1].Number != 21 || !o.Short || o.Seed != 7 || len(o.Against) != 1 || !f.json {
		t.Errorf("got %+v", f)
	}
	if want := "go run . -against river -run 1,sigterm -short -seed 7"; f.options.Command != want {
		t.Errorf("command: got %q, want %q", f.options.Command, want)
	}
}

func TestParseDefaults(t *testing.T) {
	f, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.options.Scenarios) != len(runner.All) || len(f.options.Against) != 0 || f.options.Short || f.options.Seed == 0 {
		t.Errorf("got %+v", f.options)
	}
	again, err := parse(strings.Fields(strings.TrimPrefix(f.options.Command, "go run . ")), io.Discard)
	if err != nil || again.options.Seed != f.options.Seed {
		t.Errorf("the command %q: got seed %d, %v, want %d", f.options.Command, again.options.Seed, err, f.options.Seed)
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-run nothing":    "-run nothing",
		"-run 1,":         "no such scenario",
		"-against errand": "-against errand",
		"-against sqlite": "want some of river",
		"-seed -1":        "invalid value",
		"sigkill":         `unexpected argument "sigkill"`,
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want … %s", args, err, want)
		}
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-list"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != len(runner.All) || !strings.Contains(out.String(), " 1  sigkill") || !strings.Contains(out.String(), "(river too)") {
		t.Errorf("got %d lines:\n%s", got, out.String())
	}
}

// TestFailures: the exit status is 1 for a failure of errand's. A failure of another system, and a
// scenario that was not run, are only shown.
func TestFailures(t *testing.T) {
	good := &report.Row{Number: 1, Scenario: "a", System: "errand", Checks: []report.Check{{OK: true}}}
	bad := &report.Row{Number: 2, Scenario: "b", System: "errand", Checks: []report.Check{{OK: false}}}
	peer := &report.Row{Number: 1, Scenario: "a", System: "river", Checks: []report.Check{{OK: false}}}
	left := &report.Row{Number: 3, Scenario: "c", System: "errand", NotRun: "no disk"}
	if err := failures([]*report.Row{good, peer, left}); err != nil {
		t.Errorf("a peer's: got %v, want nil", err)
	}
	if err := failures([]*report.Row{good, bad}); err == nil || err.Error() != "failed: 2 b" {
		t.Errorf("errand's: got %v, want failed: 2 b", err)
	}
	void := &report.Row{Number: 4, Scenario: "d", System: "errand", Checks: []report.Check{{Time: true}}, Void: "it stood still"}
	if err := failures([]*report.Row{good, void}); err == nil || err.Error() != "void, twice: 4 d: it stood still" {
		t.Errorf("void: got %v, want which stall made it so", err)
	}
	bad.System = "sqlite"
	if err := failures([]*report.Row{good, bad}); err == nil || err.Error() != "failed: 2 b" {
		t.Errorf("errand's on SQLite: got %v, want failed: 2 b", err)
	}
}
