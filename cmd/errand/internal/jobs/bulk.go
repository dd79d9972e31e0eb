package jobs

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue/driver"
)

// Bulk import.
//
//   - Problem: a file of jobs is enqueued in many transactions, and the program, the connection or
//     the machine may fail at any point. No job may be left out, or enqueued twice.
//   - Rule: before the first batch a state file beside the input gets a random ID. The database
//     receives each line as a [driver.Transfer] whose Source is that ID and the number of the line,
//     and remembers it in the same transaction. So lines may be sent again. The state file is
//     deleted after the last batch: the next run of the same file is a new import.
//   - Bounds: the database remembers for [driver.TransferWindow]. The state says up to which line
//     all is written, at most a second ago, and after the window a run is refused.
//   - Test: TestBulkKilled.

// bulkFlags are the flags of enqueue with --file.
type bulkFlags struct {
	file, state string
	batch       int
	dryRun      bool
}

// bulkNames are the names of the flags; the others of enqueue are for one job.
var bulkNames = []string{"file", "state", "batch", "dry-run"}

// define defines the flags.
func (o *bulkFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.file, "file", "", "enqueue the jobs in this `FILE`, one a line as JSON; - means standard input")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only check the lines of --file")
	flags.IntVar(&o.batch, "batch", 1000, "how many lines of --file a transaction writes, up to 10000")
	flags.StringVar(&o.state, "state", "", "the `FILE` in which --file keeps its state (default FILE.errand-state; with\n"+
		"--file - none, and such an import cannot go on after an interruption)")
	_ = cmd.MarkFlagFilename("file")
}

// checkAlone returns an error if there is an argument or a flag that is for one job.
func (o bulkFlags) checkAlone(cmd *cobra.Command, args []string) (err error) {
	if len(args) > 0 {
		return cli.Usagef("%s beside --file: each line has its own kind and payload", args[0])
	}
	if o.batch > 10_000 {
		return cli.Usagef("--batch %d: at most 10000", o.batch)
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(bulkNames, f.Name) {
			err = cli.Usagef("--%s is for one job: give it as a field of each line", f.Name)
		}
	})
	return err
}

// runBulk runs the command with --file. A dry run needs no database.
func (a app) runBulk(cmd *cobra.Command, o bulkFlags) error {
	if o.dryRun {
		if err := a.Accept(); err != nil {
			return err
		}
		return a.bulk(cmd.Context(), nil, o)
	}
	return a.Working(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.bulk(ctx, d, o) })(cmd, nil)
}

// stateSuffix is what the state file of an input adds to its name.
const stateSuffix = ".errand-state"

// bulkCounts is the answer of a bulk import.
type bulkCounts struct {
	Lines      int  `json:"lines"`      // that have a job
	Enqueued   int  `json:"enqueued"`   // anew, by this run and by those that it goes on with
	Duplicates int  `json:"duplicates"` // whose key a live job had
	Replaced   int  `json:"replaced"`   // which took the place of a live job
	Refused    int  `json:"refused"`    // by the database
	Repeated   int  `json:"repeated"`   // which an interrupted run had written and not counted
	DryRun     bool `json:"dry_run,omitempty"`
}

func (c bulkCounts) String() string {
	if c.DryRun {
		return cli.CountText(c.Lines, "line") + " checked, nothing written"
	}
	text := fmt.Sprintf("%s: %d enqueued", cli.CountText(c.Lines, "line"), c.Enqueued)
	for _, more := range []struct {
		n    int
		what string
	}{{c.Replaced, "replaced a job"}, {c.Duplicates, "duplicates"}, {c.Refused, "refused"}, {c.Repeated, "written by an interrupted run"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	return text
}

// bulk enqueues the jobs of a file. All lines are checked before the first is written.
func (a app) bulk(ctx context.Context, d *dburl.Database, o bulkFlags) error {
	in, end, err := a.openInput(o.file)
	if err != nil {
		return err
	}
	defer end()
	lines, sum, err := a.checkLines(ctx, in)
	if err != nil {
		return err
	}
	if o.dryRun {
		counts := bulkCounts{Lines: lines, DryRun: true}
		return a.WriteOne(counts, counts.String())
	}
	receiver, err := cli.Need[driver.Receiver](d)
	if err != nil {
		return err
	}
	s, err := openState(o.stateFile(), bulkState{Input: sum, Database: d.Description, Counts: bulkCounts{Lines: lines}})
	if err != nil {
		return err
	}
	if s.Done > 0 {
		a.Notef("going on after line %d, where an earlier run has ended", s.Done)
	}
	w := &bulkWriter{app: a, d: d, to: receiver, state: s}
	if err := w.writeLines(ctx, in, o.batch); err != nil {
		return w.stopped(err)
	}
	if err := s.remove(); err != nil {
		return err
	}
	if err := a.WriteOne(s.Counts, s.Counts.String()); err != nil {
		return err
	}
	if s.Counts.Refused > 0 {
		return cli.Refusedf("the database has refused %s", cli.CountText(s.Counts.Refused, "line"))
	}
	return nil
}

// stateFile returns the name of the state file, or "" for none.
func (o bulkFlags) stateFile() string {
	if o.state == "" && o.file != "-" {
		return o.file + stateSuffix
	}
	return o.state
}

// openInput opens a file of jobs, which is read twice. Standard input goes to a temporary file.
func (a app) openInput(name string) (f *os.File, end func(), err error) {
	if name != "-" {
		if f, err = os.Open(name); err != nil {
			return nil, nil, cli.Usagef("--file: %v", err)
		}
		return f, func() { f.Close() }, nil
	}
	if f, err = os.CreateTemp("", "errand-enqueue-"); err != nil {
		return nil, nil, err
	}
	_ = os.Remove(f.Name()) // so that a process that is killed leaves nothing; Windows cannot
	end = func() { f.Close(); _ = os.Remove(f.Name()) }
	if _, err = io.Copy(f, a.In); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		end()
	}
	return f, end, err
}

// maxShown is how many bad or refused lines are named.
const maxShown = 20

// checkLines checks all lines, and returns how many have a job, and a sum of the input.
func (a app) checkLines(ctx context.Context, in io.Reader) (lines int, sum string, err error) {
	r := newLineReader(in)
	bar := a.Progress("checking", 0)
	defer bar.Close()
	bad := 0
	for r.next() {
		if ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		if _, err := r.job(); err != nil {
			if bad++; bad <= maxShown {
				fmt.Fprintf(bar, "errand: line %d: %v\n", r.line, err)
			}
		}
		lines++
		bar.Add(1)
	}
	if err := r.err(); err != nil {
		return 0, "", err
	}
	if bad > 0 {
		return 0, "", cli.Usagef("%s of %d are bad, and nothing is written", cli.CountText(bad, "line"), lines)
	}
	return lines, r.sum(), nil
}
