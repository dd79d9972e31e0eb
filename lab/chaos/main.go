// Command chaos does to errand what breaks job queues, and counts the lost jobs.
//
//	cd lab/chaos && go run . [-run 1,2,sigterm] [-short] [-seed N] [-against river]
//
// Workers and enqueuers are processes of their own. chaos kills and freezes them and tells them to
// stop, and it kills the server, too. Each process writes what it sees to a ledger, on a server
// that no fault strikes. An audit compares the ledger with the acknowledged enqueues. A seed
// repeats a run: the same faults strike the same victims after the same pauses. The PostgreSQL
// binaries are those in PATH, or of the newest version on the machine.
//
// The exit status is 1 if errand missed a criterion. A criterion that another system missed is only
// shown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/report"
	"github.com/errandhq/errand/lab/chaos/internal/runner"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/internal/process"
)

func main() { process.Main("chaos", child.Run, run) }

// flags are the command line.
type flags struct {
	options  runner.Options
	json     bool
	markdown bool
	criteria bool
	list     bool
	reports  []string // shown instead of a run
}

func parse(args []string, errors io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	set.SetOutput(errors)
	names := set.String("run", "", "scenarios, by number or name (see -list); default all")
	against := set.String("against", "", "systems besides errand, of "+strings.Join(peers(), ","))
	set.BoolVar(&f.options.Short, "short", false, "fewer jobs and faults, the same criteria")
	set.Uint64Var(&f.options.Seed, "seed", 0, "seed of all random numbers; 0 means a new one each time")
	set.IntVar(&f.options.Parallel, "parallel", 1, "how many scenarios may run at a time")
	set.StringVar(&f.options.Logs, "logs", "", "folder for the logs of the processes and of the servers")
	reports := set.String("show", "", "run nothing: show the reports of earlier runs in these files, written by -json")
	set.BoolVar(&f.json, "json", false, "print JSON")
	set.BoolVar(&f.markdown, "markdown", false, "print the tables of docs/reliability.md")
	set.BoolVar(&f.criteria, "criteria", false, "print the criteria and what was found, in Markdown")
	set.BoolVar(&f.list, "list", false, "list the scenarios")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if *reports != "" {
		f.reports = strings.Split(*reports, ",")
	}
	if f.options.Scenarios, err = scenarios(*names, f.options.Short); err != nil {
		return f, err
	}
	if f.options.Against, err = systems(*against); err != nil {
		return f, err
	}
	if f.options.Seed == 0 {
		f.options.Seed = 1 + rand.Uint64N(1_000_000)
	}
	f.options.Command = command(set, f.options.Seed)
	return f, nil
}

// command returns the command line that repeats the run, on this machine or another.
func command(set *flag.FlagSet, seed uint64) string {
	words := []string{"go run ."}
	set.Visit(func(f *flag.Flag) {
		switch {
		case slices.Contains([]string{"seed", "logs", "json", "markdown", "criteria"}, f.Name):
		case f.Value.String() == "true":
			words = append(words, "-"+f.Name)
		default:
			words = append(words, "-"+f.Name, f.Value.String())
		}
	})
	return strings.Join(append(words, "-seed", fmt.Sprint(seed)), " ")
}

// scenarios returns the named scenarios, or without a name all of a full or short run.
func scenarios(list string, short bool) ([]scenario.Scenario, error) {
	if list == "" {
		return slices.DeleteFunc(slices.Clone(runner.All), func(s scenario.Scenario) bool { return s.Long && short }), nil
	}
	var chosen []scenario.Scenario
	for name := range strings.SplitSeq(list, ",") {
		found := runner.Find(name)
		if len(found) == 0 {
			return nil, fmt.Errorf("-run %s: no such scenario, see -list", name)
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}

// peers returns the values of -against.
func peers() []string {
	var names []string
	for _, s := range peer.Systems {
		if s.Competitor {
			names = append(names, s.Name)
		}
	}
	return names
}

func systems(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(peers(), name) {
			return nil, fmt.Errorf("-against %s: want some of %s", name, strings.Join(peers(), ","))
		}
	}
	return names, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	f, err := parse(args, progress)
	if err != nil {
		return err
	}
	if f.list {
		return list(out)
	}
	if len(f.reports) > 0 {
		rows, err := report.Read(f.reports...)
		return errors.Join(err, f.write(out, rows))
	}
	fmt.Fprintln(progress, f.options.Command)
	f.options.Progress = progress
	rows, err := runner.Run(ctx, f.options)
	return errors.Join(err, f.write(out, rows), failures(rows))
}

func list(out io.Writer) error {
	for _, s := range runner.All {
		also := ""
		switch {
		case s.Peers:
			also = " (" + strings.Join(peers(), ", ") + " too)"
		case s.System != "":
			also = " (" + s.System + ")"
		}
		if _, err := fmt.Fprintf(out, "%2d  %-17s  %s%s\n", s.Number, s.Name, s.What, also); err != nil {
			return err
		}
	}
	return nil
}

// write writes the rows in the format that the command line asks for.
func (f flags) write(out io.Writer, rows []*report.Row) error {
	switch {
	case f.json:
		return report.JSON(out, rows)
	case f.markdown:
		return report.Markdown(out, rows)
	case f.criteria:
		return report.Criteria(out, rows)
	}
	return report.Text(out, rows)
}

// failures returns an error if errand did not pass all scenarios that were run.
func failures(rows []*report.Row) error {
	var failed, void []string
	for _, r := range rows {
		system, _ := peer.Named(r.System)
		switch {
		case system.Competitor || r.Pass() || r.NotRun != "":
		case r.Void != "":
			void = append(void, fmt.Sprintf("%d %s: %s", r.Number, r.Scenario, r.Void))
		default:
			failed = append(failed, fmt.Sprintf("%d %s", r.Number, r.Scenario))
		}
	}
	var errs []error
	if len(void) > 0 {
		errs = append(errs, fmt.Errorf("void, twice: %s", strings.Join(void, ", ")))
	}
	if len(failed) > 0 {
		errs = append(errs, fmt.Errorf("failed: %s", strings.Join(failed, ", ")))
	}
	return errors.Join(errs...)
}
