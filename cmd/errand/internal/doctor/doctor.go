package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
)

func (a app) doctorCommand() *cobra.Command {
	o := doctor.Options{Tool: true}
	var verbose bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for faults of the queue and its database",
		Long: `doctor runs checks. A check changes nothing, and ends after two seconds at most.
Below each finding doctor prints the remedy. It exits with 5 if a check warns or
fails. docs/doctor.md lists the checks.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Backlog.Warn < 0 || o.Backlog.Fail < 0 {
			return cli.Usagef("--backlog-warn and --backlog-fail: at least 0")
		}
		return a.Examining(func(ctx context.Context, d *dburl.Database, _ []string) error { return a.doctor(ctx, d, o, verbose) })(cmd, args)
	}
	flags := cmd.Flags()
	flags.BoolVarP(&verbose, "verbose", "v", false, "with the SQL of each check")
	flags.DurationVar(&o.Backlog.Warn, "backlog-warn", 0, "warn if a due job has waited for this time; 0 means a minute")
	flags.DurationVar(&o.Backlog.Fail, "backlog-fail", 0, "fail if a due job has waited for this time; 0 means 15 minutes")
	return cmd
}

func (a app) doctor(ctx context.Context, d *dburl.Database, o doctor.Options, verbose bool) error {
	o.Program = a.Program()
	report, err := doctor.Examine(ctx, d.Queue, o)
	if err != nil {
		return err
	}
	report.At = report.At.UTC()
	if !verbose {
		for i := range report.Checks {
			report.Checks[i].SQL = ""
		}
	}
	text := a.reportText(report)
	if err := a.WriteOne(report, text); err != nil {
		return err
	}
	a.NotePassword(text)
	if level := report.Level(); level != ops.OK {
		return cli.Foundf("doctor: %s", level)
	}
	return nil
}

// reportText returns a line for each check, and its advice below it.
func (a app) reportText(r doctor.Report) string {
	longest := 0
	for _, c := range r.Checks {
		longest = max(longest, len(c.ID))
	}
	var b strings.Builder
	for _, c := range r.Checks {
		level := fmt.Sprintf("%-7s", c.Level)
		fmt.Fprintf(&b, "%s  %-*s  %s\n", a.Paint(string(c.Level), level), longest, plain.Line(c.ID), plain.Line(c.Value))
		if c.Advice != "" {
			fmt.Fprintf(&b, "%*s→ %s\n", 9+longest+2, "", plain.Line(c.Advice))
		}
		if c.SQL != "" {
			for line := range strings.Lines(c.SQL) {
				fmt.Fprintf(&b, "    %s\n", plain.Line(strings.TrimRight(line, "\n")))
			}
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
