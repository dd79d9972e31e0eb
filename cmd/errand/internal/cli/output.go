package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/internal/progress"
)

// column is a column of a table.
type column struct {
	name   string
	isWide bool // only -o wide shows it
}

// Table is a list that a command writes. Cells are text as it is stored; rendering escapes them.
type Table struct {
	Columns []column
	rows    [][]string
}

// Columns makes columns of names. Those after "|" are only in -o wide.
func Columns(text string) (list []column) {
	usual, more, _ := strings.Cut(text, "|")
	for _, name := range strings.Fields(usual) {
		list = append(list, column{name: name})
	}
	for _, name := range strings.Fields(more) {
		list = append(list, column{name: name, isWide: true})
	}
	return list
}

// Add appends a row, with a cell for each column.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Write writes a list: items for JSON, and otherwise the table that rows makes of them.
func Write[T any](a *App, items []T, rows func() Table) error {
	switch a.Format {
	case "json":
		if items == nil {
			items = []T{}
		}
		return a.WriteJSON(items, "  ")
	case "jsonl":
		for _, item := range items {
			if err := a.WriteJSON(item, ""); err != nil {
				return err
			}
		}
		return nil
	}
	return a.WriteTable(rows())
}

// WriteOne writes one item: as JSON, or the text of plain.
func (a *App) WriteOne(item any, plain string) error {
	switch a.Format {
	case "json":
		return a.WriteJSON(item, "  ")
	case "jsonl":
		return a.WriteJSON(item, "")
	}
	_, err := fmt.Fprintln(a.Out, plain)
	return err
}

// WriteJSON writes one item as JSON, with unsafe characters escaped.
func (a *App) WriteJSON(item any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(item); err != nil {
		return err
	}
	_, err := a.Out.Write(escapeJSON(b.Bytes()))
	return err
}

// WriteTable writes t. On a terminal it cuts lines at the terminal's width, unless the format is
// wide.
func (a *App) WriteTable(t Table) error {
	limit := a.Columns()
	var b strings.Builder
	for i, line := range t.lines(a.Format == "wide") {
		status := ""
		if i > 0 {
			status = line.status
		}
		b.WriteString(a.paintWord(CutLine(line.text, limit), status) + "\n")
	}
	_, err := a.Out.Write([]byte(b.String()))
	return err
}

// NoteTable writes t to standard error, because standard output has the result alone.
func (a *App) NoteTable(t Table) error {
	notes := *a
	notes.Out, notes.Format = a.Err, "table"
	return notes.WriteTable(t)
}

// line is a line of a table, and the status that it shows.
type line struct{ text, status string }

// lines returns the header and the rows, escaped and padded.
func (t Table) lines(isWide bool) (list []line) {
	var shown []int
	header := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = c.name
		if !c.isWide || isWide {
			shown = append(shown, i)
		}
	}
	rows := append([][]string{header}, t.rows...)
	widths := make([]int, len(t.Columns))
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
			if t.Columns[i].name == "STATUS" {
				l.status = cell
			}
		}
		l.text = strings.TrimRight(l.text, " ")
		list = append(list, l)
	}
	return list
}

// Text returns the table as plain text, for a screen.
func (t Table) Text() string {
	var b strings.Builder
	for _, l := range t.lines(false) {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

const unlimited = 1 << 20

// Columns returns how many columns a line of a table may have.
func (a *App) Columns() int {
	if fd, ok := Terminal(a.Out); ok && a.Format != "wide" {
		if columns, _, err := term.GetSize(fd); err == nil && columns > 0 {
			return columns
		}
	}
	return unlimited
}

// Paint colours text by a status or a level, on a terminal that wants colours.
func (a *App) Paint(status, text string) string {
	code, ok := colours[status]
	if _, isTerminal := Terminal(a.Out); !ok || !isTerminal || a.Getenv("NO_COLOR") != "" || a.Getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// paintWord colours the first occurrence of a status in a line.
func (a *App) paintWord(line, status string) string {
	if before, after, found := strings.Cut(line, status); found && status != "" {
		return before + a.Paint(status, status) + after
	}
	return line
}

var colours = map[string]string{
	"running": "36", "completed": "32", "dead": "31", "held": "33", "cancelled": "35",
	"live": "32", "failing": "31", "draining": "33", "vanished": "31",
	"ok": "32", "warn": "33", "fail": "31",
}

// CountText returns a number of things: "1 job", "2 jobs".
func CountText(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// TimeText returns t as RFC 3339 in UTC, to the second; "" for the zero time.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// AgeText returns a duration to the second, or shorter ones as they are.
func AgeText(d time.Duration) string {
	if d >= time.Second {
		return plain.Duration(d.Round(time.Second))
	}
	return plain.Duration(d.Round(time.Millisecond))
}

// Progress shows on standard error how far work is that has total parts; 0 means that nobody knows.
// The caller closes it.
func (a *App) Progress(what string, total int) *progress.Bar { return progress.New(a.Err, what, total) }

// YesNo returns "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// IsTable reports whether the output is for people.
func (a *App) IsTable() bool { return a.Format == "table" || a.Format == "wide" }

// EstimateMark returns what stands before a number that is an estimate, and "" before an exact one.
func EstimateMark(isEstimate bool) string {
	if isEstimate {
		return "~"
	}
	return ""
}
