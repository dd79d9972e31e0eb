package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Markdown writes all rows, in one table for each server, and the runs that they are from.
func Markdown(out io.Writer, rows []*Row) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Number, b.Number))
	})
	all := runs(rows)
	var b strings.Builder
	for i, r := range rows {
		if i == 0 || rows[i-1].Server != r.Server {
			fmt.Fprintf(&b, "### %s\n\n", r.Server)
			b.WriteString("| # | scenario | system | jobs | faults | lost | still open | duplicates ≤ bound | recovery | took | run | result |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %d | %s |\n", r.Number, cell(r.What), r.System, thousands(r.Jobs), thousands(r.Faults),
			thousands(r.Lost), thousands(r.Open), r.duplicates(), r.recovery(), r.took().Round(time.Second), 1+slices.Index(all, r.Run), r.verdict())
		if i == len(rows)-1 || rows[i+1].Server != r.Server {
			b.WriteString("\n")
		}
	}
	for _, s := range systems(rows) {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	b.WriteString("\nRuns:\n\n")
	for i, r := range all {
		fmt.Fprintf(&b, "%d. `%s`, %s, %s\n", i+1, r.Command, r.Machine, r.Date)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Criteria writes the criteria of each row and what was found.
func Criteria(out io.Writer, rows []*Row) error {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "## %d, %s, %s: %s\n\n", r.Number, r.System, r.Server, r.emphasized())
		fmt.Fprintf(&b, "`%s`, %s\n\n", r.Run.Command, r.Run.Date)
		for _, c := range r.Checks {
			got := c.Got
			if !c.OK {
				got = "**fails**: " + got
			}
			fmt.Fprintf(&b, "- %s: %s\n", line(c.Want), line(got))
		}
		if r.NotRun != "" {
			fmt.Fprintf(&b, "- (%s)\n", line(r.NotRun))
		}
		if r.Error != "" {
			fmt.Fprintf(&b, "- carried through: **fails**: %s\n", line(r.Error))
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "- (%s)\n", line(n))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// runs returns the runs that rows are from, each once.
func runs(rows []*Row) (all []Run) {
	for _, r := range rows {
		if !slices.Contains(all, r.Run) {
			all = append(all, r.Run)
		}
	}
	return all
}

// systems returns the systems of the rows, with their settings.
func systems(rows []*Row) (all []string) {
	for _, r := range rows {
		if text := r.System + ": " + r.About; !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// emphasized returns the result. A failure is bold.
func (r *Row) emphasized() string {
	if r.Pass() || r.NotRun != "" {
		return r.Result()
	}
	return "**" + r.Result() + "**"
}

// verdict returns the result, and for a failure its reason.
func (r *Row) verdict() string {
	const most = 120
	why := []rune(cell(r.Why()))
	if len(why) == 0 {
		return r.emphasized()
	}
	if len(why) > most {
		why = append(why[:most], '…')
	}
	return r.emphasized() + ": " + string(why)
}

// cell returns text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(line(text), "|", `\|`) }

// line returns text in one line.
func line(text string) string { return strings.ReplaceAll(text, "\n", " ") }
