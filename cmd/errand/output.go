package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

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
	var shown []int
	for i, c := range t.columns {
		if !c.isWide || a.format == "wide" {
			shown = append(shown, i)
		}
	}
	widths := make([]int, len(shown))
	for n, i := range shown {
		widths[n] = width(t.columns[i].name)
		for _, row := range t.rows {
			widths[n] = max(widths[n], width(escape(row[i])))
		}
	}
	var b strings.Builder
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = c.name
	}
	limit := a.columns()
	for r, row := range append([][]string{header}, t.rows...) {
		line, used := "", 0
		for n, i := range shown {
			cell := escape(row[i])
			padded := cell
			if n < len(shown)-1 {
				padded += strings.Repeat(" ", widths[n]-width(cell)+2)
			}
			padded = cut(padded, limit-used)
			used += width(padded)
			if r > 0 && t.columns[i].name == "STATUS" {
				padded = a.paint(cell, padded)
			}
			line += padded
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := a.out.Write([]byte(b.String()))
	return err
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

var colours = map[string]string{
	"running": "36", "completed": "32", "dead": "31", "held": "33", "cancelled": "35",
	"live": "32", "draining": "33", "vanished": "31",
	"ok": "32", "warn": "33", "fail": "31",
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
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}
