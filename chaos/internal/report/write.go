package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Text writes a table for a terminal, and under it the criteria of each row.
func Text(out io.Writer, h Header, rows []*Row) error {
	fmt.Fprintf(out, "%s\n%s; %s\n", h.Command, h.Server, h.Machine)
	for _, s := range h.Systems {
		fmt.Fprintf(out, "%s\n", s)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "#\tscenario\tsystem\tjobs\tfaults\tlost\tduplicates\trecovery\ttook\tresult")
	for _, r := range rows {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Number, r.Scenario, r.System, thousands(r.Jobs), thousands(r.Faults),
			thousands(r.Lost), r.duplicates(), r.recovery(), r.Took.Round(time.Second), r.Result())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		fmt.Fprintf(out, "\n%d %s, %s: %s\n", r.Number, r.Scenario, r.System, r.What)
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
	}
	return nil
}

// JSON writes an array of rows, each with the command that it came of.
func JSON(out io.Writer, h Header, rows []*Row) error {
	type record struct {
		*Row
		Command string    `json:"command"`
		Machine string    `json:"machine"`
		Date    time.Time `json:"date"`
		Pass    bool      `json:"pass"`
	}
	records := make([]record, len(rows))
	for i, r := range rows {
		records[i] = record{r, h.Command, h.Machine, h.Date, r.Pass()}
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(records)
}

// Markdown writes the table of docs/reliability.md, and under it what was demanded and
// found, failures included.
func Markdown(out io.Writer, h Header, rows []*Row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %s, %s, %s.\n\n", h.Command, h.Server, h.Machine, h.Date.Format(time.DateOnly))
	for _, s := range h.Systems {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	b.WriteString("\n| # | scenario | system | jobs | faults | lost | duplicates ≤ bound | recovery | result |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		result := r.Result()
		if !r.Pass() && r.NotRun == "" {
			result = "**" + result + "**"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Number, cell(r.What), r.System, thousands(r.Jobs), thousands(r.Faults),
			thousands(r.Lost), r.duplicates(), r.recovery(), result)
	}
	b.WriteString("\n| # | system | demanded | found |\n|---|---|---|---|\n")
	for _, r := range rows {
		for _, c := range r.Checks {
			got := cell(c.Got)
			if !c.OK {
				got = "**fails**: " + got
			}
			fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", r.Number, r.System, cell(c.Want), got)
		}
		if r.NotRun != "" {
			fmt.Fprintf(&b, "| %d | %s | | %s |\n", r.Number, r.System, cell(r.NotRun))
		}
		if r.Error != "" {
			fmt.Fprintf(&b, "| %d | %s | carried through | **fails**: %s |\n", r.Number, r.System, cell(r.Error))
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "| %d | %s | | %s |\n", r.Number, r.System, cell(n))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// cell is text that a table's cell can hold.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
