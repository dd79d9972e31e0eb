// Command bench measures errand against other job queues and against hand-written SQL, on the same
// servers, or in the same file, in the same run.
//
//	cd lab/bench && go run . [-run drain,sqlite-drain] [-against floor,river,asynq,bullmq]
//
// It finds or starts the servers that the scenarios need: Postgres as package postgrestest does
// (DATABASE_URL, Docker, local binaries), redis-server, and Node with npm for graphile-worker and
// BullMQ. The scenarios of SQLite need no server: their file is in the folder for temporary files.
// The report names the systems that are not available. Each measurement runs in processes of its
// own and begins on an empty database, and the systems take turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/report"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/runner"
	"github.com/errandhq/errand/lab/bench/internal/scenario"
	"github.com/errandhq/errand/lab/bench/internal/server"
	"github.com/errandhq/errand/lab/internal/process"
	labreport "github.com/errandhq/errand/lab/internal/report"
)

func main() { process.Main("bench", child.Run, run) }

// flags are the command line.
type flags struct {
	options  runner.Options
	json     bool
	markdown bool
	svg      string
	command  string
}

func parse(args []string, errors io.Writer) (f flags, err error) {
	f.command = strings.TrimSpace("go run . " + strings.Join(args, " "))
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(errors)
	names := set.String("run", "", "scenarios, of "+strings.Join(scenarioNames(true), ",")+"; default all but "+strings.Join(extraNames(), " and "))
	against := set.String("against", strings.Join(peer.Families(), ","), "what to measure besides errand")
	set.IntVar(&f.options.Rounds, "rounds", 3, "how often each is measured")
	set.Float64Var(&f.options.Scale, "scale", 1, "factor for numbers of jobs and durations")
	set.DurationVar(&f.options.Soak, "soak", 20*time.Minute, "how long the soak lasts")
	set.BoolVar(&f.json, "json", false, "print JSON")
	set.BoolVar(&f.markdown, "markdown", false, "print Markdown")
	set.StringVar(&f.svg, "svg", "", "folder for a picture of each scenario")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case f.options.Rounds < 1:
		return f, fmt.Errorf("-rounds %d: at least 1", f.options.Rounds)
	case f.options.Scale <= 0:
		return f, fmt.Errorf("-scale %v: above 0", f.options.Scale)
	case f.options.Soak < time.Second:
		return f, fmt.Errorf("-soak %v: at least 1s", f.options.Soak)
	}
	if f.options.Scenarios, err = scenarios(*names); err != nil {
		return f, err
	}
	f.options.Against, err = families(*against)
	return f, err
}

// scenarioNames lists the scenarios. With extra it also lists those that run only when they are
// named.
func scenarioNames(extra bool) []string {
	var names []string
	for _, s := range scenario.All {
		if extra || !s.Extra {
			names = append(names, s.Name)
		}
	}
	return names
}

// extraNames lists the scenarios that run only when they are named.
func extraNames() []string {
	return slices.DeleteFunc(scenarioNames(true), func(name string) bool { return slices.Contains(scenarioNames(false), name) })
}

func scenarios(list string) ([]scenario.Scenario, error) {
	names := scenarioNames(false)
	if list != "" {
		names = strings.Split(list, ",")
	}
	var chosen []scenario.Scenario
	for _, name := range names {
		s, ok := scenario.Find(name)
		if !ok {
			return nil, fmt.Errorf("-run %s: want some of %s", name, strings.Join(scenarioNames(true), ","))
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

func families(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(peer.Families(), name) {
			return nil, fmt.Errorf("-against %s: want some of %s", name, strings.Join(peer.Families(), ","))
		}
	}
	return names, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	f, err := parse(args, progress)
	if err != nil {
		return err
	}
	return f.run(ctx, out, progress)
}

// run measures what the flags say, and writes the report.
func (f flags) run(ctx context.Context, out, progress io.Writer) error {
	f.options.Progress = progress
	header := report.Header{Command: f.command, Machine: labreport.Machine(), Rounds: f.options.Rounds, Scale: f.options.Scale, Begun: time.Now(), Load: report.Load()}
	servers, err := server.Start(ctx, f.options.Systems())
	if err != nil {
		return err
	}
	tables, err := runner.Run(ctx, f.options, servers)
	header.Servers = servers.Describe()
	header.Systems = systemLines(f.options.Systems())
	header.Took = time.Since(header.Begun)
	return errors.Join(err, servers.Close(), f.write(out, header, tables), failures(tables))
}

// systemLines returns a line for each system with its settings.
func systemLines(systems []peer.System) []string {
	var lines []string
	for _, s := range systems {
		lines = append(lines, s.Name+": "+s.About)
	}
	return lines
}

// write writes the tables in the format that the command line asks for.
func (f flags) write(out io.Writer, h report.Header, tables []*result.Table) error {
	if err := pictures(f.svg, tables); err != nil {
		return err
	}
	switch {
	case f.json:
		return report.JSON(out, tables)
	case f.markdown:
		return report.Markdown(out, h, tables)
	}
	return report.Text(out, h, tables)
}

// pictures draws each table into a file in dir, unless dir is "".
func pictures(dir string, tables []*result.Table) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, t := range tables {
		var b strings.Builder
		if err := report.SVG(&b, t); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, t.Scenario+".svg"), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// failures returns an error that lists the measurements that failed, or nil.
func failures(tables []*result.Table) error {
	var failed []error
	for _, t := range tables {
		for _, g := range t.Gaps {
			if g.Failed {
				failed = append(failed, fmt.Errorf("%s: %s failed: %s", t.Scenario, g.Place, g.Reason))
			}
		}
	}
	return errors.Join(failed...)
}
