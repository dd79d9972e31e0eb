package report

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Text writes a table for a terminal, and below it the criteria of each row.
func Text(out io.Writer, rows []*Row) error {
	for _, r := range runs(rows) {
		fmt.Fprintf(out, "%s; %s\n", r.Command, r.Machine)
	}
	for _, s := range systems(rows) {
		fmt.Fprintln(out, s)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "#\tscenario\tsystem\tserver\tjobs\tfaults\tlost\topen\tduplicates\trecovery\ttook\tresult")
	for _, r := range rows {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Number, r.Scenario, r.System, r.Server, thousands(r.Jobs), thousands(r.Faults),
			thousands(r.Lost), thousands(r.Open), r.duplicates(), r.recovery(), r.took().Round(time.Second), r.Result())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if err := text(out, r); err != nil {
			return err
		}
	}
	return nil
}

// text writes the criteria of one row and what was found.
func text(out io.Writer, r *Row) error {
	_, err := fmt.Fprintf(out, "\n%d %s, %s: %s\n", r.Number, r.Scenario, r.System, r.What)
	for _, n := range r.Notes {
		fmt.Fprintf(out, "        %s\n", n)
	}
	for _, c := range r.Checks {
		mark := "ok"
		if !c.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(out, "  %-4s  %s: %s\n", mark, c.Want, c.Got)
	}
	if r.NotRun != "" {
		fmt.Fprintf(out, "        %s\n", r.NotRun)
	}
	if r.Error != "" {
		fmt.Fprintf(out, "  FAIL  %s\n", r.Error)
	}
	return err
}
