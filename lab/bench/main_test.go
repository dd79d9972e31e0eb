package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/scenario"
	"github.com/errandhq/errand/lab/internal/process"
)

// TestMain lets this test program be a child of itself.
func TestMain(m *testing.M) {
	process.ExitIfChild(child.Run)
	os.Exit(m.Run())
}

// some are the scenarios and cases of TestSmoke: together they have every server, and every part of
// package child but the dashboard.
var some = []struct {
	scenario string
	cases    []string // none means all
}{
	{"handler", nil}, // ideal, work
	{"transaction", nil},
	{"latency", []string{"300/s"}},
	{"remote", []string{"300/s"}}, // fleet, gateway
	{"long", nil},                 // claims
	{"cancel", []string{"a worker that listens"}},
	{"schedules", []string{"all at one moment, 1 process"}},
	{"sqlite-drain", []string{"100,000 jobs"}},
	{"redis", []string{"enqueue from 1 goroutine", "claim and settle one, 4 goroutines"}}, // singles, takes
	{"soak", nil}, // enqueue, flow
}

// TestSmoke measures some scenarios, very small, against hand-written SQL. With
// ERRAND_TESTS=whole it measures everything, also against River and goqite. Each measurement must
// succeed and have a figure.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	families, scenarios := []string{"errand", "ideal", "floor"}, scenario.All
	if extent.Whole() {
		families = append(families, "river", "goqite")
	} else {
		scenarios = someScenarios(t)
	}
	pictures := t.TempDir()
	checkFigures(t, families, scenarios, "-soak", "1s", "-svg", pictures)
	for _, s := range scenarios {
		if _, err := os.Stat(filepath.Join(pictures, s.Name+".svg")); err != nil {
			t.Error(err)
		}
	}
}

// someScenarios returns what the variable some names.
func someScenarios(t *testing.T) (scenarios []scenario.Scenario) {
	t.Helper()
	for _, o := range some {
		s, ok := scenario.Find(o.scenario)
		if !ok {
			t.Fatalf("no scenario %s", o.scenario)
		}
		for _, name := range o.cases {
			if !slices.Contains(s.Cases, name) {
				t.Fatalf("%s: no case %q", s.Name, name)
			}
		}
		if o.cases != nil {
			s.Cases = o.cases
		}
		scenarios = append(scenarios, s)
	}
	return scenarios
}

// TestBullMQ does the same for BullMQ, where Node and npm are installed and npm can get it, as they
// must in CI.
func TestBullMQ(t *testing.T) {
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: takes half a minute, and needs npm")
	}
	if _, err := peer.Named("bullmq").Node.Prepare(t.Context()); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED, and CI would fail: ", err)
	}
	redis, _ := scenario.Find("redis")
	checkFigures(t, []string{"bullmq"}, []scenario.Scenario{redis})
}

// checkFigures measures the scenarios, very small. It fails unless each has a figure above 0 for
// each of its systems of the families.
func checkFigures(t *testing.T, families []string, scenarios []scenario.Scenario, args ...string) {
	t.Helper()
	against := slices.DeleteFunc(slices.Clone(families), func(name string) bool { return !slices.Contains(peer.Families(), name) })
	args = append([]string{"-against", strings.Join(against, ","), "-scale", "0.005", "-rounds", "1", "-json"}, args...)
	var out, progress bytes.Buffer
	f, err := parse(args, &progress)
	if err != nil {
		t.Fatal(err)
	}
	f.options.Scenarios = scenarios
	if err := f.run(t.Context(), &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Log(progress.String())
	measured := figures(t, out.Bytes())
	for _, s := range scenarios {
		for _, system := range s.Systems {
			if !slices.Contains(families, peer.Named(system).Family) || strings.Contains(system, "redis") && !hasRedis() {
				continue
			}
			for _, name := range casesOf(s) {
				if !measured[name+" of "+system] {
					t.Errorf("no figure for %s of %s; got\n%s", name, system, progress.String())
				}
			}
		}
	}
}

// hasRedis reports whether redis-server is installed, as it must be in CI.
func hasRedis() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil || os.Getenv("CI") != ""
}

// casesOf returns the names of a scenario's cases, as JSON has them.
func casesOf(s scenario.Scenario) []string {
	switch {
	case s.Name == "long":
		return []string{"long/beside 10 million", "long/empty table"}
	case s.Name == "scheduled":
		return []string{"scheduled/beside 1 million", "scheduled/empty table"}
	case s.Name == "dashboard":
		return []string{"dashboard/overview", "dashboard/watched", "dashboard/bulk retry", "dashboard/dashboard"}
	case s.Series:
		return []string{"soak/2nd quarter", "soak/last quarter"}
	case len(s.Cases) == 0:
		return []string{s.Name}
	}
	var names []string
	for _, c := range s.Cases {
		names = append(names, s.Name+"/"+c)
	}
	return names
}

// figures returns the scenarios and systems that have figures above 0.
func figures(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	var records []struct {
		Scenario, System string
		Median           float64
	}
	if err := json.Unmarshal(text, &records); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, r := range records {
		if r.Median > 0 {
			found[r.Scenario+" of "+r.System] = true
		}
	}
	return found
}

func TestParse(t *testing.T) {
	f, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o := f.options
	if o.Rounds != 3 || o.Scale != 1 || o.Soak.Minutes() != 20 || !slices.Equal(o.Against, []string{"floor", "river", "asynq", "bullmq", "graphile", "goqite"}) {
		t.Errorf("defaults: got %+v", o)
	}
	isExtra := func(s scenario.Scenario) bool { return s.Name == "soak" || s.Name == "dashboard" }
	if len(o.Scenarios) != len(scenario.All)-2 || slices.ContainsFunc(o.Scenarios, isExtra) {
		t.Errorf("default scenarios: got %d, want all but soak and dashboard", len(o.Scenarios))
	}
	f, err = parse([]string{"-run", "latency,drain", "-against", "", "-json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s := f.options.Scenarios; len(s) != 2 || s[0].Name != "latency" || s[1].Name != "drain" || len(f.options.Against) != 0 || !f.json {
		t.Errorf("-run latency,drain -against '' -json: got %+v", f)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		args, want string
	}{
		{"-run nothing", "-run nothing"},
		{"-run drain,", "want some of"},
		{"-against redis", "-against redis"},
		{"-rounds 0", "-rounds 0"},
		{"-scale 0", "-scale 0"},
		{"-soak 1ms", "-soak 1ms"},
		{"drain", `unexpected argument "drain"`},
	} {
		if _, err := parse(strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want … %s", c.args, err, c.want)
		}
	}
}
