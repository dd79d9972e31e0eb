package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/progress"
	"golang.org/x/term"
)

// column is a column of a table.
type column struct {
	name   string
	isWide bool // only -o wide shows it
}

// table is what a command lists. Cells are text as it is stored; rendering escapes them.
type table struct {
	columns []column
	rows    [][]string
}

// columns makes columns of names. Those after "|" are only in -o wide.
func columns(text string) (list []column) {
	usual, more, _ := strings.Cut(text, "|")
	for _, name := range strings.Fields(usual) {
		list = append(list, column{name: name})
	}
	for _, name := range strings.Fields(more) {
		list = append(list, column{name: name, isWide: true})
	}
	return list
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes a list: items for JSON, and otherwise the table that rows makes of them.
func write[T any](a *app, items []T, rows func() table) error {
	switch a.format {
	case "json":
		if items == nil {
			items = []T{}
		}
		return a.writeJSON(items, "  ")
	case "jsonl":
		for _, item := range items {
			if err := a.writeJSON(item, ""); err != nil {
				return err
			}
		}
		return nil
	}
	return a.writeTable(rows())
}

// writeOne writes one item: as JSON, or the text of plain.
func (a *app) writeOne(item any, plain string) error {
	switch a.format {
	case "json":
		return a.writeJSON(item, "  ")
	case "jsonl":
		return a.writeJSON(item, "")
	}
	_, err := fmt.Fprintln(a.out, plain)
	return err
}

func (a *app) writeJSON(item any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(item); err != nil {
		return err
	}
	_, err := a.out.Write(escapeJSON(b.Bytes()))
	return err
}

// writeTable writes t. On a terminal it cuts lines at the terminal's width, unless the format is
// wide.
func (a *app) writeTable(t table) error {
	limit := a.columns()
	var b strings.Builder
	for i, line := range t.lines(a.format == "wide") {
		status := ""
		if i > 0 {
			status = line.status
		}
		b.WriteString(a.paintWord(cut(line.text, limit), status) + "\n")
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
}

// noteTable writes t to standard error, because standard output has the result alone.
func (a *app) noteTable(t table) error {
	notes := *a
	notes.out, notes.format = a.err, "table"
	return notes.writeTable(t)
}

// line is a line of a table, and the status that it shows.
type line struct{ text, status string }

// lines returns the header and the rows, escaped and padded.
func (t table) lines(isWide bool) (list []line) {
	var shown []int
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = c.name
		if !c.isWide || isWide {
			shown = append(shown, i)
		}
	}
	rows := append([][]string{header}, t.rows...)
	widths := make([]int, len(t.columns))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], width(plain.Line(cell)))
		}
	}
	for _, row := range rows {
		var l line
		for _, i := range shown {
			cell := plain.Line(row[i])
			l.text += cell + strings.Repeat(" ", widths[i]-width(cell)+2)
			if t.columns[i].name == "STATUS" {
				l.status = cell
			}
		}
		l.text = strings.TrimRight(l.text, " ")
		list = append(list, l)
	}
	return list
}

// text returns the table as plain text, for a screen.
func (t table) text() string {
	var b strings.Builder
	for _, l := range t.lines(false) {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

const unlimited = 1 << 20

// columns returns how many columns a line of a table may have.
func (a *app) columns() int {
	if fd, ok := terminal(a.out); ok && a.format != "wide" {
		if columns, _, err := term.GetSize(fd); err == nil && columns > 0 {
			return columns
		}
	}
	return unlimited
}

// paint colours text by a status or a level, on a terminal that wants colours.
func (a *app) paint(status, text string) string {
	code, ok := colours[status]
	if _, isTerminal := terminal(a.out); !ok || !isTerminal || a.getenv("NO_COLOR") != "" || a.getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// paintWord colours the first occurrence of a status in a line.
func (a *app) paintWord(line, status string) string {
	if before, after, found := strings.Cut(line, status); found && status != "" {
		return before + a.paint(status, status) + after
	}
	return line
}

var colours = map[string]string{
	"running": "36", "completed": "32", "dead": "31", "held": "33", "cancelled": "35",
	"live": "32", "failing": "31", "draining": "33", "vanished": "31",
	"ok": "32", "warn": "33", "fail": "31",
}

// countText returns a number of things: "1 job", "2 jobs".
func countText(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// timeText returns t as RFC 3339 in UTC, to the second; "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// ageText returns a duration to the second, or shorter ones as they are.
func ageText(d time.Duration) string {
	if d >= time.Second {
		return plain.Duration(d.Round(time.Second))
	}
	return plain.Duration(d.Round(time.Millisecond))
}

// progress shows on standard error how far work is that has total parts; 0 means that nobody knows.
// The caller closes it.
func (a *app) progress(what string, total int) *progress.Bar { return progress.New(a.err, what, total) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// isTable reports whether the output is for people.
func (a *app) isTable() bool { return a.format == "table" || a.format == "wide" }

func estimateMark(isEstimate bool) string {
	if isEstimate {
		return "~"
	}
	return ""
}
